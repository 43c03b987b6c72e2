"""Notebook cells as places: where a template or a registration of a notebook is said to stand."""

from __future__ import annotations

import linecache
import sys
from types import ModuleType, SimpleNamespace

import pytest

from workbench.ground.environment.call_sites import cell_name, cell_with
from workbench.ground.environment.owners import Owner
from workbench.scheduling.kernels.template import Template

CELL = "/tmp/ipykernel_7/42.py"
SOURCE = 'import workbench\n\nclass InCell(Template):\n    source = """\nfunc.func @x() {\n"""\n'


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that has run one cell, as number 3."""
    ipython = ModuleType("IPython")
    ipython.get_ipython = lambda: SimpleNamespace(compile=SimpleNamespace(_filename_map={CELL: 3}))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(linecache.cache, CELL, (len(SOURCE), None, SOURCE.splitlines(keepends=True), CELL))


@pytest.mark.usefixtures("notebook")
def test_a_text_is_found_in_its_cell():
    assert cell_with("func.func @x() {") == (CELL, 4)
    assert cell_with("nowhere") is None and cell_with("") is None
    assert (cell_name(CELL), cell_name("/tmp/ipykernel_7/43.py")) == ("In[3]", "/tmp/ipykernel_7/43.py")


@pytest.mark.usefixtures("notebook")
def test_a_class_of_a_notebook_stands_in_its_cell():
    cell = type("InCell", (Template,), {"__module__": "__main__", "source": "\nfunc.func @x() {\n"})
    owner = Owner.of(cell)
    assert owner.place == "In[3]:3" and owner.is_cell


def test_a_class_of_a_module_stands_in_its_file():
    class WithoutMethods(Template):
        source = "nothing"

    line = next(i for i, text in enumerate(open(__file__), 1) if "class WithoutMethods" in text)  # noqa: SIM115
    assert Owner.of(WithoutMethods).place == f"{__file__}:{line}"
