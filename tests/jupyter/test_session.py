"""Tests how IPython shows plain records, once the workbench is imported."""

from __future__ import annotations

import math
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from IPython.core.formatters import DisplayFormatter

import workbench as wb
from workbench.jupyter import ipython_session


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Function from a value to its displayed forms, by kind of text."""
    formatter = DisplayFormatter()
    shell = SimpleNamespace(display_formatter=formatter, custom_exceptions=(), set_custom_exc=lambda *_: None)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))  # type: ignore[arg-type]
    ipython_session.begin()
    return lambda value: formatter.format(value)[0]


def test_a_machine_shows_its_figures_and_what_was_changed(shown: Any):
    told = shown(wb.machine("edge-8x8", memory="banked"))
    assert told["text/plain"] == "Machine('edge-8x8 (memory=banked)')"
    assert "1 of 8x8" in told["text/html"] and "vector_lanes" in told["text/html"]


def test_a_program_shows_its_instructions_and_its_buffers(shown: Any):
    kernel = wb.trace(torch.relu, torch.randn(64, 64)).scheduled.kernels[0]
    told = shown(kernel.program)
    for word in ("LOAD", "VECTOR", "STORE", "x64 of arg0 at 0", *kernel.buffers.table.buffer):
        assert word in told["text/html"], word
    table = kernel.instructions
    assert len(table) == len(kernel.program) and table.kind[0] == "LOAD"
    (first,) = table.reads[0]
    assert first.endswith("x64 of arg0 at 0") and 0 in table.waits_for[1]
    shown_buffers = shown(kernel.buffers)
    assert kernel.buffers == kernel.program.buffers
    assert all(name in shown_buffers[kind] for name in kernel.buffers.table.buffer for kind in shown_buffers)


def test_the_registry_shows_itself_and_other_modules_are_as_they_were(shown: Any):
    with wb.ops.scope():
        wb.ops.builder("aten.frac.default", dialect="math", kind="elementwise")(lambda op: op)
        told = shown(wb.ops)
    assert "registered; wb.ops.table()" in told["text/plain"]
    own, _, shipped = told["text/html"].partition("shipped")
    assert "aten.frac.default" in own and "aten.hypot.default" in shipped
    assert list(shown(math)) == ["text/plain"] and shown(math)["text/plain"] == repr(math)


def test_a_program_that_only_imports_ipython_is_left_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))  # type: ignore[arg-type]
    ipython_session.begin()
