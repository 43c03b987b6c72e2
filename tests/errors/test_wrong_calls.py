"""No call with wrong values raises anything but what we say ourselves: a seeded sample of `python -m tests.calls N`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

import workbench as wb
from simulator.errors import MachineError
from tests.calls import run
from workbench.ground.errors import BadArgument, BadOption, BadRegistration, InputMismatch, WorkbenchError


def test_six_hundred_wrong_calls_are_told_in_our_words():
    tried = list(run(600, seed=1))
    assert [f"{each.text}: {each.raised!r}" for each in tried if each.raw] == []
    assert sum(each.raised is not None for each in tried) > 120


class OddPath(os.PathLike[object]):
    """A path of what it is given, as Python allows them of bytes; of None, one that raises."""

    def __init__(self, path: object) -> None:
        self.path = path

    def __fspath__(self) -> object:
        if self.path is None:
            raise TypeError("no path today")
        return self.path


@pytest.fixture(scope="module")
def journey() -> wb.Journey:
    return wb.trace(torch.relu, torch.randn(4, 6))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda j: wb.trace(None, torch.ones(3)), InputMismatch, "expected a function or an nn.Module"),
        (lambda j: wb.trace(), BadArgument, "missing a required argument: 'fn_or_module'"),
        (
            lambda j: wb.trace(torch.relu, kwargs=[1]),
            BadArgument,
            r"wb.trace: kwargs=\[1\], of type list; expected a m",
        ),
        (lambda j: j.save(None), BadArgument, "path=None, of type NoneType; expected text or a path"),
        (lambda j: j.save("a\0b"), BadArgument, "NUL character"),
        (lambda j: j.save(Path("a\0b")), BadArgument, "NUL character"),
        (lambda j: j.save(OddPath(b"a.journey")), BadArgument, "b'a.journey', of bytes; expected one of text"),
        (lambda j: wb.load(OddPath(b"a.journey")), BadArgument, "b'a.journey', of bytes; expected one of text"),
        (lambda j: j.with_(mapping=OddPath(b"a.toml")), BadArgument, r"mapping=.*b'a.toml', of bytes; expected"),
        (lambda j: j.with_(tuned=OddPath(b"a.json")), BadArgument, r"tuned=.*b'a.json', of bytes; expected"),
        (lambda j: wb.machine(OddPath(b"a.toml")), BadArgument, "b'a.toml', of bytes; expected one of text"),
        (lambda j: j.to_html(OddPath(None)), BadArgument, "its __fspath__ raised TypeError: no path today"),
        (lambda j: j.to_html(3), BadArgument, "path=3, of type int"),
        (lambda j: wb.load("x" * 300), WorkbenchError, "it cannot be read: File name too long"),
        (lambda j: j.simulated.text(width="72"), BadArgument, "width='72', of type str; expected a whole number"),
        (lambda j: j.simulated.plot(width=-1), BadOption, "width=-1: expected inches"),
        (lambda j: j.select(int), WorkbenchError, "type"),
        (
            lambda j: wb.schedule(j.lowered, j.rendered, scripts={1: 2}),
            BadOption,
            "schedule must be {kernel_name: text",
        ),
        (lambda j: wb.lower(j), BadArgument, "expected a Captured or an AtenGraph"),
        (lambda j: wb.ops.builder("aten.frac.default", dialect=[])(print), BadRegistration, r"dialect=\[\] of the bui"),
        (lambda j: j.machine.microseconds("3"), MachineError, "cycles='3': expected a whole number"),
        (lambda j: wb.Table(("a",), ()).pick("b"), BadOption, "there is no such column; the table has a"),
        (lambda j: wb.mlir_pass(3), BadArgument, "name=3, of type int; expected text"),
    ],
)
def test_an_argument_of_another_kind_is_named(journey: wb.Journey, call, error: type[Exception], words: str):
    with pytest.raises(error, match=words):
        call(journey)


def test_modes_of_other_compilers_are_refused_with_what_there_is():
    torch._dynamo.reset()
    with pytest.raises(
        BadOption, match=r"mode='max-autotune'\): modes are Inductor's.*options=\{\.\.\.\}, which takes machine"
    ):
        torch.compile(torch.relu, backend="npu", mode="max-autotune")(torch.ones(3))
