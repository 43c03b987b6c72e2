"""Tests the wheel's rewriting of imports: every form is found, and lines stay where they are."""

from __future__ import annotations

import pytest

from scripts.one_package import imports_outside, inside, with_imports_inside

FORMS = {
    "from simulator.errors import DoesNotFit": "from workbench.simulator.errors import DoesNotFit",
    "if x:\n    from templates import builtin": "if x:\n    from workbench.templates import builtin",
    "from simulator import Machine, simulate": "from workbench.simulator import Machine, simulate",
    "import simulator": "from workbench import simulator",
    "import simulator as machine": "from workbench import simulator as machine",
    "if x:\n    import simulator.units as units": "if x:\n    import workbench.simulator.units as units",
    "from workbench.simulator import Machine": "from workbench.simulator import Machine",
    "import simulators\nfrom templates_of_mine import x": "import simulators\nfrom templates_of_mine import x",
    "x = 1  # from simulator import Machine": "x = 1  # from simulator import Machine",
}


@pytest.mark.parametrize("source", FORMS)
def test_imports_are_rewritten_once(source: str) -> None:
    made = with_imports_inside(source)
    assert made == FORMS[source] and with_imports_inside(made) == made and imports_outside(made) == []


@pytest.mark.parametrize("source", ["import simulator.units", "import os, templates", "import simulator, os"])
def test_a_form_that_binds_another_name_inside_is_found(source: str) -> None:
    assert imports_outside(with_imports_inside(source)) != []


def test_only_what_lies_beside_goes_inside() -> None:
    names = ["simulator", "simulator.units", "templates", "workbench.ir", "simulators"]
    assert [inside(each) for each in names] == [
        "workbench.simulator", "workbench.simulator.units", "workbench.templates", "workbench.ir", "simulators",
    ]  # fmt: skip
