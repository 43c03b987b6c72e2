"""Tests that moved files are not moved again, and that every form of a name is found."""

from __future__ import annotations

import pytest

from scripts.move_rooms import moved

FORMS = {
    "from workbench.errors import BadOption": "from workbench.ground.errors import BadOption",
    "import workbench.cli": "import workbench.commands.cli",
    "from workbench import doctor, verbs": "from workbench import verbs\nfrom workbench.commands import doctor",
    "    from workbench import errors": "    from workbench.ground import errors",
    "from workbench.views.basics.table import Table": "from workbench.ground.basics.table import Table",
    "from workbench.views import basics": "from workbench.ground import basics",
    "see workbench/findings/rules.": "see workbench/explaining/findings/rules.",
    "in `aten/registry.py`": "in `operators/aten/registry.py`",
    "in `aten/no_such_file.py`": "in `aten/no_such_file.py`",
    "wb.ops.table() and aten-workbench.errors": "wb.ops.table() and aten-workbench.errors",
}


@pytest.mark.parametrize("old", FORMS)
def test_names_and_paths_are_rewritten_once(old: str) -> None:
    new = moved(old)
    assert new == FORMS[old] and moved(new) == new
