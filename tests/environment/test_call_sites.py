"""Which line of the user's a stack trace stands for."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch

from workbench.commands import cli
from workbench.ground.environment.call_sites import called_from, place_of

TORCH = f'  File "{torch.nn.__file__}", line 7, in forward\n    code\n'


def test_the_innermost_frame_outside_torch_is_taken() -> None:
    trace = f'  File "/home/me/a.py", line 3, in f\n    g(x)\n  File "/home/me/b.py", line 5, in g\n    y\n{TORCH}'
    assert place_of(trace) == ("/home/me/b.py", 5)


def test_without_a_frame_of_the_users_there_is_no_place() -> None:
    assert place_of(TORCH) == (None, None) and place_of("") == (None, None) and place_of(None) == (None, None)


def test_a_notebook_cell_is_named_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = "/tmp/ipykernel_12/345.py"
    trace = f'  File "{cell}", line 2, in f\n    y\n'
    shell = SimpleNamespace(compile=SimpleNamespace(_filename_map={cell: 4}))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert place_of(trace) == ("In[4]", 2)
    shell.compile._filename_map.clear()
    assert place_of(trace) == (cell, 2)


def test_a_call_from_the_command_line_has_no_place() -> None:
    code, found = "found.append(called_from())", list[object]()
    for file in (cli.__file__, "/home/me/a.py"):
        exec(compile(code, file, "exec"), {"called_from": called_from, "found": found})
    assert found == [(None, None), ("/home/me/a.py", 1)]
