"""Passes as records: they print as a step of a pipeline, and are read from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

import workbench as wb
from workbench.ground.errors import BadOption, BadRegistration, PassError
from workbench.scheduling.passes.attach_script import AttachSchedule, AttachScript
from workbench.scheduling.passes.kernel_pass import KernelPass, OptionMistake
from workbench.scheduling.passes.promote import Promote


@dataclass(frozen=True)
class Every(KernelPass):
    name = "every"
    turns: int = 1
    share: float = 0.5
    eager: bool = False
    word: str = "plain"
    dims: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    by: Mapping[str, int] = field(default_factory=dict[str, int])

    def run(self, module: Any) -> None:
        raise AssertionError("it is never run")


pytestmark = pytest.mark.usefixtures("own_scope")


@pytest.fixture(scope="module")
def journey() -> wb.Journey:
    return wb.trace(lambda x: torch.tanh(x / 3), torch.randn(64, 96))


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (Every(), "every"),
        (Every(turns=3, eager=True), "every{turns=3 eager=true}"),
        (Every(share=0.25, word="a-b"), "every{share=0.25 word=a-b}"),
        (Every(dims=("m", "n"), sizes=(4, 8), by={"k": 2, "m": 1}), "every{dims=m,n sizes=4,8 by=k:2,m:1}"),
        (Promote(2), "npu-promote{buffers=2}"),
        (AttachSchedule(("m", "n"), {"m": 32}, {"n": 2}), "npu-attach-schedule{order=m,n tile=m:32 cores=n:2}"),
        (AttachScript("module { a = b }"), "npu-attach-script{module { a = b }}"),
    ],
)
def test_it_prints_and_is_read_back(made: KernelPass, text: str):
    assert str(made) == text
    assert type(made).parse(made.options()) == made


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("turn=3", r"there is no option 'turn=3'; did you mean 'turns'\?"),
        ("turns", "there is no option 'turns'"),
        ("turns=two", "turns=two: expected a whole number"),
        ("share=half", "share=half: expected a number"),
        ("eager=yes", "eager=yes: expected true or false"),
        ("sizes=4,x", "sizes=x: expected a whole number"),
        ("by=k", "by=: expected a whole number"),
        ("turns=1 turns=2", "turns is given twice"),
    ],
)
def test_a_text_that_is_none_of_it_is_refused(options: str, words: str):
    with pytest.raises(OptionMistake, match=words):
        Every.parse(options)


def test_an_option_without_a_default_must_be_given():
    with pytest.raises(OptionMistake, match=r"buffers must be given: npu-promote\{buffers=...\}"):
        Promote.parse("")


@pytest.mark.parametrize("word", ["two words", "a{b", "x,y", ""])
def test_a_value_that_no_pipeline_can_say_is_refused(word: str):
    with pytest.raises(OptionMistake, match="a text in a pipeline has no spaces"):
        str(Every(word=word))


@pytest.mark.test_all
def test_a_users_pass_is_a_record_with_typed_options(journey: wb.Journey):
    seen: list[tuple[int, tuple[str, ...]]] = []

    @wb.mlir_pass("look-around")
    @dataclass(frozen=True)
    class LookAround(wb.KernelPass):
        turns: int = 1
        at: tuple[str, ...] = ()

        def run(self, module: Any) -> None:
            seen.append((self.turns, self.at))

    by_record = journey.with_(passes={"clean up": LookAround(turns=2, at=("m", "n"))})
    assert by_record.scheduled.kernels[0].passes[-1].name == "yours: look-around{turns=2 at=m,n}"
    by_text = journey.with_(passes={"clean up": ["look-around{turns=3}", LookAround()]})
    assert len(by_text.scheduled.kernels) == 1
    assert set(seen) == {(2, ("m", "n")), (3, ()), (1, ())}
    for no_number in ("many", "\uff14"):
        with pytest.raises(PassError, match=f"turns={no_number}: expected a whole number"):
            _ = journey.with_(passes={"clean up": f"look-around{{turns={no_number}}}"}).scheduled


def test_mistakes_with_ours_are_named(journey: wb.Journey):
    with pytest.raises(PassError, match="there is no option 'bufers=2'; did you mean 'buffers'"):
        _ = journey.with_(passes={"bufferize": "npu-promote{bufers=2}"}).scheduled


def test_a_class_that_is_no_pass_is_refused(journey: wb.Journey):
    with pytest.raises(BadRegistration, match="Nothing is a class; expected a function of the module"):
        made: Any = type("Nothing", (), {})
        wb.mlir_pass("nothing")(made)

    @dataclass(frozen=True)
    class Unnamed(wb.KernelPass):
        def run(self, module: Any) -> None:
            raise AssertionError("it is never run")

    with pytest.raises(BadOption, match=r"Unnamed has no name: register it with @wb\.mlir_pass"):
        _ = journey.with_(passes={"clean up": Unnamed()}).scheduled


def register(name: str, made: Any) -> Any:
    return wb.mlir_pass(name)(dataclass(frozen=True)(made))


def test_a_journey_with_a_pass_given_as_a_record_is_saved(journey: wb.Journey, tmp_path: Path):
    class Look(wb.KernelPass):
        turns: int = 1

        def run(self, module: Any) -> None:
            pass

    made = register("look-once", Look)
    changed = journey.with_(passes={"clean up": made(turns=2)})
    changed.save(tmp_path / "a.journey")
    assert wb.load(tmp_path / "a.journey").scheduled.kernels[0].passes[-1].name == "yours: look-once{turns=2}"


def test_what_derives_from_a_pass_is_not_that_pass(journey: wb.Journey):
    class Base(wb.KernelPass):
        def run(self, module: Any) -> None:
            pass

    made = register("base-of", Base)

    class Derived(made):
        def run(self, module: Any) -> None:
            pass

    with pytest.raises(BadOption, match="Derived has no name"):
        journey.with_(passes={"clean up": dataclass(frozen=True)(Derived)()})


def test_a_record_of_a_pass_that_was_defined_anew_is_refused(journey: wb.Journey):
    def cell() -> Any:
        class Again(wb.KernelPass):
            turns: int = 1

            def run(self, module: Any) -> None:
                pass

        return register("again", Again)

    before, now = cell()(turns=5), cell()
    with pytest.raises(BadOption, match="not the class that is registered as 'again' now: make the pass anew"):
        journey.with_(passes={"clean up": before})
    assert str(now(turns=5)) == "again{turns=5}"


@pytest.mark.parametrize(
    ("field_type", "name", "words"),
    [
        (int | None, "x", "its option x is a int | None; expected int, float"),
        (tuple[tuple[int, ...], ...], "x", "its option x is a tuple"),
        (tuple[int, str], "x", "its option x is a tuple"),
        (Mapping[int, int], "x", "its option x is a .*Mapping"),
        (list[int], "x", "its option x is a list"),
        (int, "options", "its option options has the name of a part of every pass"),
    ],
)
def test_options_that_no_pipeline_can_say_are_refused_where_the_pass_is_registered(
    field_type: Any, name: str, words: str
):
    made = type("Odd", (wb.KernelPass,), {"__annotations__": {name: field_type}, "run": lambda self, module: None})
    with pytest.raises(BadRegistration, match=words):
        register("odd-one", made)


@pytest.mark.parametrize(("given", "told"), [(None, "None"), (3, "'3'")])
def test_a_value_that_would_be_read_back_as_another_is_refused(journey: wb.Journey, given: Any, told: str):
    class Word(wb.KernelPass):
        word: str = "plain"

        def run(self, module: Any) -> None:
            pass

    made = register("word", Word)
    with pytest.raises(BadOption, match=f"would be read back as .*{told}"):
        journey.with_(passes={"clean up": made(word=given)})


def test_what_a_record_refuses_of_itself_is_said_with_the_pass(journey: wb.Journey):
    class Few(wb.KernelPass):
        turns: int = 1

        def __post_init__(self) -> None:
            if self.turns > 3:
                raise ValueError("three turns at most")

        def run(self, module: Any) -> None:
            pass

    register("few", Few)
    with pytest.raises(PassError, match="Few: three turns at most"):
        _ = journey.with_(passes={"clean up": "few{turns=4}"}).scheduled
