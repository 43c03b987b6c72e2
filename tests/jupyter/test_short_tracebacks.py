"""An error in a cell shows the cell's own lines and the sentence, not a hundred lines of the workbench's."""

from __future__ import annotations

import re

from tests.fresh_process import python

_CELLS = """
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
for number, cell in enumerate([
    "import torch, workbench as wb\\nj = wb.trace(torch.softmax, torch.randn(8, 8), 1)",
    "j.with_(mapping={'k0_softmax': {'tile': {'m': 7}}}).simulated",
    "def wrong(x):\\n    return x.no_such_method()\\n\\nwb.trace(wrong, torch.randn(3))",
    "wb.machine('edge')",
    "%tb",
]):
    print(f"cell {number}")
    shell.run_cell(cell)
"""


def test_it_shows_the_lines_of_the_user_and_tb_shows_all():
    printed = re.sub(r"\x1b\[[\d;]*m", "", python("-c", _CELLS))
    _, _, mapping, users, machine, everything = re.split(r"cell \d\n", printed)
    assert "----> 1 j.with_(mapping=" in mapping and "tile names 'm'" in mapping
    assert mapping.rstrip().endswith("%tb shows all.")
    assert "return x.no_such_method()" in users and "AttributeError" in users and "GraphBreak" not in users
    assert "----> 1 wb.machine('edge')" in machine and "did you mean 'edge-8x8'" in machine
    for told in (mapping, users, machine):
        assert len(told.splitlines()) < 25, told
    assert "simulator/machine/machine_file.py" in everything
