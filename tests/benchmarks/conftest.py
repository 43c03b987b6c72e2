"""Benchmarks are scripts, which import each other by their own names."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def benchmarks_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "benchmarks"))


OnTable = Callable[..., tuple[int, str, str]]


@pytest.fixture
def on_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> OnTable:
    """Runs a benchmark on a table with the given text; returns its exit status, and its text on stdout and stderr."""

    def run(benchmark: str, text: str, *arguments: str) -> tuple[int, str, str]:
        table = tmp_path / "table.csv"
        table.write_bytes(text.encode("latin-1"))
        monkeypatch.setattr(sys, "argv", [f"{benchmark}.py", "--table", str(table), *arguments])
        return importlib.import_module(benchmark).main(), *capsys.readouterr()

    return run
