"""One `except` is for every error raised on purpose; the simulator does not know whose errors stand beside its own."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import simulator.errors
import workbench as wb
from tests.fresh_process import python
from workbench.ground import errors

ROOT = Path(__file__).resolve().parents[2]
OF_THE_WORKBENCH = {"WorkbenchError", "Journey", "Captured", "Lowered", "Rendered", "Scheduled", "AtenGraph", "wb"}


@pytest.mark.parametrize("module", [simulator.errors, errors], ids=lambda module: module.__name__)
def test_one_except_catches_every_error(module: object):
    found = [each for each in vars(module).values() if isinstance(each, type) and issubclass(each, Exception)]
    beside = {each.__name__ for each in found if not issubclass(each, wb.WorkbenchError | Warning)}
    assert len(found) > 10 and beside == set()
    assert issubclass(errors.BadArgument, wb.WorkbenchError) and simulator.errors.WorkbenchError is wb.WorkbenchError


def test_the_simulator_alone_has_no_error_of_the_workbench():
    code = "import simulator.errors as e, sys; print(hasattr(e, 'WorkbenchError'), 'workbench' in sys.modules)"
    assert python("-c", code) == "False False\n"


def test_the_simulator_names_nothing_of_the_workbench():
    found = set[tuple[str, str]]()
    for path in (ROOT / "simulator").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = getattr(node, "id", None), getattr(node, "name", None), getattr(node, "value", None)
            found |= {(path.name, name) for name in names if isinstance(name, str) and name in OF_THE_WORKBENCH}
    assert found == set()
