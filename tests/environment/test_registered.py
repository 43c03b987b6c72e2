"""One rule for passes, views and rules of findings: owners, clashes that name both places, scopes, what is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import workbench as wb
from workbench.explaining.findings import rule_search
from workbench.ground.environment.registered import PASSES
from workbench.ground.errors import RegistrationClash

pytestmark = pytest.mark.usefixtures("own_scope")


def _written(folder: Path, name: str, code: str) -> Callable[..., Any]:
    """The function `own` of a module of this name, as a file of its own has it."""
    file = folder / f"{name}.py"
    file.write_text(code)
    made: dict[str, Any] = {"__name__": name}
    exec(compile(code, str(file), "exec"), made)
    return made["own"]


REGISTERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "pass": (wb.mlir_pass, "pass 'own-thing'"),
    "view": (lambda name: wb.view("simulated", name), "view of simulated 'own-thing'"),
    "rule": (wb.finding, "rule 'own-thing'"),
}


@pytest.mark.parametrize("register, what", REGISTERS.values(), ids=REGISTERS)
def test_two_owners_of_a_name_are_told_with_both_places(register: Callable[[str], Any], what: str, tmp_path: Path):
    first = _written(tmp_path, "mine", "def own(*given):\n    return ()\n")
    register("own-thing")(first)
    register("own-thing")(first)
    register("own-thing")(_written(tmp_path, "mine", "\n\ndef own(*given):\n    return []\n"))
    other = _written(tmp_path, "theirs", "def own(*given):\n    return ()\n")
    with pytest.raises(RegistrationClash) as told:
        register("own-thing")(other)
    text = str(told.value)
    assert f"there is a {what} already: own of mine, {tmp_path}/mine.py:3" in text
    assert f"own of theirs, {tmp_path}/theirs.py:1, registers the name too" in text and "wb.ops.scope()" in text
    with wb.ops.scope():
        register("other-thing")(other)
    register("other-thing")(first)  # nothing is left of what the scope had


def test_a_scope_keeps_what_is_shipped_and_undoes_what_took_its_place():
    before = rule_search.rules()
    with wb.ops.scope():

        @wb.finding("launches")
        def own(facts: wb.Facts) -> Iterator[wb.Finding]:
            yield wb.Finding("", 0, "mine")

        assert rule_search.rules()["launches"] is own
    assert rule_search.rules() == before


def test_a_journey_keeps_the_passes_that_there_were_when_they_were_given():
    said = list[str]()
    wb.mlir_pass("says-so")(lambda module, options: said.append("first"))
    j = wb.trace(lambda x: x.relu() * 2, torch.randn(8, 8))
    first = j.with_(passes={"fuse elementwise": "says-so"})
    wb.mlir_pass("says-so")(lambda module, options: said.append("second"))
    _ = first.scheduled
    assert set(said) == {"first"}
    second = first.with_(passes={"fuse elementwise": "says-so"})
    assert second is not first and second.with_(passes={"fuse elementwise": "says-so"}) is second
    said.clear()
    _ = second.scheduled
    assert set(said) == {"second"}
    with PASSES.as_of({}):
        assert "says-so" not in PASSES
    assert "says-so" in PASSES
