"""A fuzz of calls: every public name is called with wrong kinds of value at each argument.

    python -m tests.calls N            # N calls, from seed 0
    python -m tests.calls N --from S

A call may succeed. What it raises is a WorkbenchError, or a TypeError or ValueError that our own code raises with our
own words; anything else is a raw exception that somebody would have to puzzle over.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import linecache
import os
import random
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import torch

import workbench as wb
from workbench.commands import cli
from workbench.ground.errors import WorkbenchError
from workbench.stages.options import of_compile

ROOT = Path(__file__).resolve().parent.parent
OURS = tuple(str(ROOT / package) for package in ("workbench", "simulator", "templates"))
SECONDS = 60


def twice(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) * 2


class Odd:
    """An object that nothing expects."""

    def __repr__(self) -> str:
        return "Odd()"


WRONG: tuple[object, ...] = (
    *(None, True, 0, 3, -1, 1.5, float("nan"), float("inf"), 10**30, 2j),
    *("", "x", "a\0b", "../x", "*", "k0", "x" * 300, "ключ", "/", "no/such/folder/x", b"x"),
    *([], [1], ["x"], [None], (), (1, 2), {}, {"a": 1}, {1: 2}, {"x": None}, {"*": {}}, {"off": 3}, {None: None}),
    *(set(), range(3), Odd(), Odd, int, len, lambda: 0, lambda x: x, torch.float32, torch.ones(3), torch.nn.ReLU()),
    *(Path("x"), Path("."), ..., NotImplemented, iter([]), ValueError("x")),
)


@dataclass(frozen=True)
class Subject:
    """Something that can be called, and arguments with which it works."""

    name: str
    call: Callable[..., Any]
    args: tuple[object, ...] = ()
    kwargs: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Tried:
    """One call: of what, with what, and what it raised that it must not."""

    text: str
    raised: BaseException | None = None

    @property
    def raw(self) -> bool:
        return self.raised is not None and not _is_told(self.raised)


def subjects() -> list[Subject]:
    """Every public name with a call that works, and every keyword that it takes."""
    x = torch.randn(4, 6)
    journey = wb.trace(twice, x)
    stages = (journey.captured, journey.lowered, journey.rendered, journey.scheduled, journey.simulated)
    found = [
        Subject("wb.trace", wb.trace, (twice, x)),
        Subject("wb.capture", wb.capture, (twice, x)),
        Subject("wb.lower", wb.lower, (journey.captured,)),
        Subject("wb.render", wb.render, (journey.lowered,)),
        Subject("wb.schedule", wb.schedule, (journey.lowered, journey.rendered)),
        Subject("wb.simulate", wb.simulate, (journey.lowered, journey.scheduled)),
        Subject("wb.compare", wb.compare, (journey, journey)),
        Subject("wb.load", wb.load, ("journey.npz",)),
        Subject("wb.machine", wb.machine, ("tpu-v3",), {"vector_lanes": 64, "cores": 1, "memory": "flat", "name": "x"}),
        Subject("wb.machines", wb.machines),
        Subject("wb.last_journeys", wb.last_journeys),
        Subject("wb.mlir_pass", wb.mlir_pass, ("of-the-fuzz",)),
        Subject("wb.view", wb.view, ("simulated",)),
        Subject("wb.Table", wb.Table, (("a",), ((1,),))),
        Subject("torch.compile", _compiled, (), dict.fromkeys(of_compile())),
        Subject("torch.compile, mode", _with_mode, ("default",)),
        *(Subject(f"wb.ops.{route}", _registering(route), ("aten.frac.default",)) for route in ROUTES),
        Subject("wb.ops.drop", _dropping, ("aten.add.Tensor",), {"route": None}),
        Subject("wb.ops.who", wb.ops.who, ("aten.add.Tensor",)),
        Subject("wb.ops.table", wb.ops.table),
        Subject("wb.ops.scope", wb.ops.scope),
        *_commands(),
    ]
    handles: dict[str, object] = {"j": journey, "check": journey.check(), "comparison": wb.compare(journey, journey)}
    handles |= {f"j.{type(stage).__name__.lower()}": stage for stage in stages}
    handles |= {"kernel of lowered": journey.lowered.kernels[0], "kernel of rendered": journey.rendered.kernels[0]}
    handles |= {"kernel of scheduled": journey.scheduled.kernels[0], "pass": journey.scheduled.kernels[0].passes[1]}
    handles |= {"tiles": journey.scheduled.tiles(journey.scheduled.kernels[0].name)}
    handles |= {"knobs": journey.knobs(journey.scheduled.kernels[0].name)}
    handles |= {"scratchpad": journey.simulated.scratchpad}
    handles |= {"pipeline": journey.simulated.pipeline(0)}
    handles |= {"selection": journey.select("relu")}
    handles |= {"overview": journey.overview}
    handles |= {"table": wb.Table(("a", "b"), ((1, "x"),)), "machine": journey.machine}
    return found + [each for name, handle in handles.items() for each in _methods(name, handle, journey, x)]


ROUTES = ("builder", "template", "conversion", "executor")


def _methods(name: str, handle: Any, journey: wb.Journey, x: torch.Tensor) -> Iterator[Subject]:
    """The public methods of a handle, and each of its properties as a call without arguments."""
    good: dict[str, tuple[object, ...]] = {
        "run": (x,), "check": (x,), "select": ("relu",), "save": ("out.npz",), "to_html": ("out.html",),
        "to_perfetto": ("out.json",), "view": ("none",), "lines_of": ("k0",), "pick": ("a",),
        "microseconds": (3,), "pad_to_lanes": (3,), "vector_elements": (4,), "lane_elements": (4,),
        "dram_slowdown": (64, 128), "of": (0,), "tiles": (journey.scheduled.kernels[0].name,),
    }  # fmt: skip
    for each in dir(type(handle)):
        if each.startswith("_"):
            continue
        if isinstance(getattr(type(handle), each), property):
            yield Subject(f"{name}.{each}", lambda each=each: getattr(handle, each))
        elif callable(getattr(handle, each)):
            yield Subject(f"{name}.{each}", getattr(handle, each), good.get(each, ()))


def _compiled(**options: object) -> object:
    torch._dynamo.reset()
    with torch.no_grad():
        return torch.compile(twice, backend="npu", options=options)(torch.randn(4, 6))


def _with_mode(mode: Any) -> object:
    torch._dynamo.reset()
    if not isinstance(mode, str) or mode == "default":  # what PyTorch checks itself
        return None
    with torch.no_grad():
        return torch.compile(twice, backend="npu", mode=mode)(torch.randn(4, 6))


def _registering(route: str) -> Callable[..., object]:
    """Registers a function for an overload, for as long as the call takes."""

    def register(*overloads: object, value: Any = twice, **options: Any) -> object:
        with wb.ops.scope():
            return getattr(wb.ops, route)(*overloads, **options)(value)

    made: Any = register
    made.takes = {"value": twice} | ({"dialect": "math", "kind": "opaque"} if route == "builder" else {})
    return register


def _dropping(overload: object, route: Any = None) -> None:
    with wb.ops.scope():
        wb.ops.drop(overload, route)


def _commands() -> Iterator[Subject]:
    """Commands of the terminal, each with what it takes."""
    lines = (
        ["trace", "program.py", "--machine", "tpu-v3", "--json", "out.json"],
        ["machines", "tpu-v3"],
        ["ops", "aten.add.Tensor", "--prefer", "math"],
        ["new-op", "demo::op"],
    )
    for words in lines:
        yield Subject(f"workbench {words[0]}", _command(words[0]), tuple(words[1:]))


def _command(name: str) -> Callable[..., int]:
    def run(*words: object) -> int:
        try:
            return cli.main([name, *(word if isinstance(word, str) else repr(word) for word in words)])
        except SystemExit as ended:
            return int(ended.code or 0)

    return run


def options_of(subject: Subject) -> list[str]:
    """The keywords that it takes and is not given by place."""
    extra = list(getattr(subject.call, "takes", subject.kwargs))
    try:
        parameters = signature(subject.call).parameters.values()
    except (TypeError, ValueError):
        return extra
    return extra + [each.name for each in parameters if each.kind is Parameter.KEYWORD_ONLY and each.name not in extra]


def attempt(subject: Subject, random: random.Random) -> Tried:
    """One call of a subject with one or two wrong values."""
    args, kwargs = list(subject.args), dict(getattr(subject.call, "takes", {}))
    options = options_of(subject)
    places = [*range(len(args)), *options]
    for place in random.sample(places, min(len(places), random.choice((1, 1, 1, 2)))):
        value = random.choice(WRONG)
        if isinstance(place, int):
            args[place] = value
        else:
            kwargs[place] = value
    given = [f"{value!r:.40}" for value in args] + [f"{key}={value!r:.40}" for key, value in kwargs.items()]
    text = f"{subject.name}({', '.join(given)})".replace("\n", " ")
    try:
        with _quietly():
            subject.call(*args, **kwargs)
    except BaseException as error:  # whatever it is, it is judged
        if isinstance(error, KeyboardInterrupt):
            raise
        return Tried(text, error)
    return Tried(text)


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """No output, no warnings, and no call that lasts longer than a minute."""

    def too_long(*_: object) -> None:
        raise TimeoutError(f"it took more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(SECONDS)
    try:
        out, err = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
        with out, err, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _is_told(error: BaseException) -> bool:
    """True if our own code raised it with our own words."""
    if isinstance(error, WorkbenchError):
        return True
    frames = traceback.extract_tb(error.__traceback__)
    if not isinstance(error, TypeError | ValueError) or not frames or not str(error):
        return False
    last = frames[-1]
    if last.name == twice.__name__:  # the function that is traced may raise what it will
        return True
    return last.filename.startswith(OURS) and linecache.getline(last.filename, last.lineno or 0).strip().startswith(
        "raise"
    )


def run(count: int, seed: int) -> Iterator[Tried]:
    """Calls drawn from a seed: all subjects in turn, in an order that it draws."""
    draw = random.Random(seed)
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("program.py").write_text("import torch\nmodel = torch.nn.ReLU()\ninputs = (torch.ones(3),)\n")
        try:
            wb.trace(twice, torch.randn(4, 6)).save("journey.npz")
            known = subjects()
            order = [each for _ in range(-(-count // len(known))) for each in draw.sample(known, len(known))]
            for subject in order[:count]:
                yield attempt(subject, draw)
        finally:
            os.chdir(before)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("count", type=int)
    parser.add_argument("--from", dest="seed", type=int, default=0)
    asked = parser.parse_args()
    kinds: Counter[str] = Counter()
    raw = 0
    for tried in run(asked.count, asked.seed):
        kinds["succeed" if tried.raised is None else "raw" if tried.raw else "told"] += 1
        if tried.raw and tried.raised is not None:
            raw += 1
            last = traceback.extract_tb(tried.raised.__traceback__)[-1]
            print(f"{tried.text}\n    {type(tried.raised).__name__}: {str(tried.raised)[:160]}", flush=True)
            ours = [each for each in traceback.extract_tb(tried.raised.__traceback__) if each.filename.startswith(OURS)]
            print(
                f"    at {last.filename}:{last.lineno}; ours: {ours[-1].filename}:{ours[-1].lineno}" if ours else last
            )
    listed = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    print(f"{asked.count} calls from seed {asked.seed}: {listed}")
    return bool(raw)


if __name__ == "__main__":
    sys.exit(main())
