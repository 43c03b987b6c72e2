"""The list of what a person can do."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.public_names import main


def test_names_are_followed_through_results_to_their_members(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for package in ("workbench", "simulator"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text('__all__ = ["trace"]\n')
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("Call `wb.trace(f).cycles`, not wb.other.")
    (tmp_path / "workbench" / "one.py").write_text(
        "def trace(f, *, machine='tpu-v3') -> Run: ...\n"
        "class Base:\n    def plot(self, width=3): ...\n    def _hidden(self): ...\n"
        "class Run(Base):\n    cycles: int\n    @property\n    def later(self) -> 'Unseen | None': ...\n"
        "class Elsewhere:\n    def never(self): ...\n"
        "parser.add_argument('--port')\n"
    )
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Base.plot(self, width=3)",
        "Run.cycles",
        "Run.later",
        "command: --port",
        "docs: wb.trace",
        "trace(f, *, machine='tpu-v3')",
    ]
