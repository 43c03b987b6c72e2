"""Threads and children: tracing takes turns, running is side by side, and a forked child works with what it has."""

from __future__ import annotations

import gc
import os
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import workbench as wb
from tests.faults.pretender import pretender
from tests.fresh_process import python
from workbench.ground.environment.turns import compiling, turn
from workbench.ground.errors import HostRoute
from workbench.ground.faults.messages import Message
from workbench.operators.aten.registry import DEFAULT
from workbench.stages.stage import Once


def together(*works: Callable[[], object]) -> list[object]:
    """Starts the works at one moment, a thread each; returns their results or raises the first's error."""
    ready, found = threading.Barrier(len(works)), dict[int, object]()

    def do(place: int, work: Callable[[], object]) -> None:
        ready.wait()
        try:
            found[place] = work()
        except BaseException as error:
            found[place] = error

    threads = [threading.Thread(target=do, args=each) for each in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for each in found.values():
        if isinstance(each, BaseException):
            raise each
    return [found[place] for place in range(len(works))]


alone = partial(python, "-c")
"""Runs code in a process of its own, where nothing has been imported or traced."""


def fresh(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function as Dynamo has never seen it, which gives a function up after a few versions."""
    return types.FunctionType(
        function.__code__.replace(), function.__globals__, function.__name__, None, function.__closure__
    )


WEIGHTS = torch.randn(16, 8)


def softmax(x: torch.Tensor) -> torch.Tensor:
    return F.softmax(x @ WEIGHTS, -1)


def sorting(x: torch.Tensor) -> torch.Tensor:
    return torch.sort(x * 2).values


def norm(x: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, (16,)) + 1


def broken(x: torch.Tensor) -> torch.Tensor:
    return (x + 1 if x.sum() > 0 else x - 1) * 2


def traced(function: Callable[..., torch.Tensor], capture: str) -> None:
    x = torch.randn(4, 16)
    journey = wb.trace(function, x, capture=capture)
    assert journey.check().ok and journey.simulated.cycles > 0
    torch.testing.assert_close(journey.run(x), function(x), rtol=1e-4, atol=1e-4)


def compiled(function: Callable[..., torch.Tensor]) -> None:
    x, one = torch.randn(5, 16), fresh(function)
    native = torch.compile(one, backend="npu")
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    with torch.no_grad():
        torch.testing.assert_close(native(x), one(x), rtol=1e-4, atol=1e-4)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > before, "it ran without being compiled"


@pytest.mark.test_all
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("turned", range(2))
def test_six_threads_trace_compile_simulate_and_run_different_programs(turned: int) -> None:
    works: list[Callable[[], object]] = [
        lambda: traced(softmax, "dynamo"),
        lambda: traced(sorting, "export"),
        lambda: traced(broken, "dynamo"),
        lambda: compiled(norm),
        lambda: compiled(softmax),
        lambda: [traced(norm, "export"), compiled(sorting)],
    ]
    together(*works[turned:], *works[:turned])


@pytest.mark.test_all
def test_threads_share_a_journey_and_each_stage_is_made_once(nothing_kept: None) -> None:
    journey = wb.trace(softmax, torch.randn(4, 16))

    def use() -> tuple[object, ...]:
        x = torch.randn(4, 16)
        torch.testing.assert_close(journey.run(x), softmax(x), rtol=1e-4, atol=1e-4)
        other = journey.with_(mapping={"*": {"buffers": 1}})
        assert other.simulated.cycles > 0 and other.lowered.record is journey.lowered.record
        return journey.rendered, journey.scheduled, journey.simulated, journey.select("softmax").kernels

    first, *others = together(*[use] * 8)
    for other in others:
        assert all(mine is theirs for mine, theirs in zip(first[:3], other[:3], strict=True))
        assert other[3] == first[3]
    assert journey._stages.kernels().compiled == len(journey.scheduled.kernels)


def test_what_two_threads_ask_for_is_made_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for compiles in (True, False):
        made: list[int] = []
        begun, go = threading.Event(), threading.Event()

        def make(made: list[int] = made, begun: threading.Event = begun, go: threading.Event = go) -> int:
            begun.set()
            go.wait()
            made.append(1)
            return len(made)

        once = Once("stage", make, compiles=compiles)
        first = threading.Thread(target=once)
        first.start()
        begun.wait()
        second = threading.Thread(target=once)
        second.start()
        go.set()
        first.join()
        second.join()
        assert (once(), made) == (1, [1])


def test_a_trace_inside_another_ones_turn_does_not_wait() -> None:
    with turn(), turn():
        assert wb.trace(torch.relu, torch.randn(4)).check().ok


def test_what_is_compiled_runs_while_another_thread_has_the_turn() -> None:
    x = torch.randn(4, 16)
    journey = wb.trace(softmax, x)
    journey.run(x)
    with turn():
        (got,) = together(lambda: journey.run(x))
    torch.testing.assert_close(got, softmax(x), rtol=1e-4, atol=1e-4)


def test_registering_from_threads_keeps_every_registration() -> None:
    names = [f"aten.{name}.default" for name in ("abs", "acos", "asin", "atan", "ceil", "cos", "erf", "exp")]

    def register(name: str) -> None:
        DEFAULT.executor(name)(lambda inputs, attributes: list(inputs))
        assert DEFAULT.now().find(name, "executor")

    with wb.ops.scope():
        together(*[lambda name=name: register(name) for name in names])
        assert all(DEFAULT.now().find(name, "executor") for name in names)


@pytest.mark.test_all
def test_the_backend_is_found_by_threads_that_name_it_for_the_first_time_at_once() -> None:
    alone("""
import threading, torch
ready, errors = threading.Barrier(6), []
def work(number):
    def f(x): return torch.relu(x) + number
    x = torch.randn(3, 4)
    ready.wait()
    try:
        with torch.no_grad():
            got = torch.compile(f, backend="npu")(x)
        assert torch.equal(got, torch.relu(x) + number)
    except BaseException as error:
        errors.append(repr(error))
threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
[each.start() for each in threads]; [each.join() for each in threads]
import workbench
assert not errors and workbench.last_journeys(), errors
""")


@pytest.mark.test_all
def test_names_of_the_package_are_fetched_by_threads_at_once() -> None:
    alone("""
import threading, workbench as wb
from workbench import ops
from workbench.operators.aten.registry import DEFAULT
ready, errors, counts = threading.Barrier(8), [], set()
names = ["trace", "Journey", "last_journeys", "compare", "Selection", "machine", "mlir_pass", "Table"]
def work(name):
    ready.wait()
    try:
        getattr(wb, name), wb.ops.table, wb.trace
        counts.add(len(DEFAULT.now()))
    except BaseException as error:
        errors.append((name, repr(error)))
threads = [threading.Thread(target=work, args=(name,)) for name in names]
[each.start() for each in threads]; [each.join() for each in threads]
assert not errors and counts == {len(DEFAULT.now())} != {0}, (errors, counts)
""")


# Children


@pytest.fixture
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (HostRoute, DeprecationWarning))
        yield


class Traced(torch.utils.data.Dataset[torch.Tensor]):
    """Each item is traced, checked, simulated and run in the loader's process."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, place: int) -> torch.Tensor:
        x = torch.full((4, 16), float(place))
        journey = wb.trace(sorting, x)
        assert journey.check().ok and journey.simulated.cycles > 0
        return journey.run(x)  # type: ignore[return-value]


def test_workers_of_a_data_loader_trace_and_run(quiet: None) -> None:
    traced(sorting, "dynamo")
    found = list(torch.utils.data.DataLoader(Traced(), num_workers=2))
    assert [each.unique().tolist() for each in found] == [[0.0], [2.0]]


@pytest.mark.test_all
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_child_forked_while_another_thread_traces_finds_nothing_half_done(quiet: None) -> None:
    stop = threading.Event()

    def keep_tracing() -> None:
        size = 0
        while not stop.is_set():
            wb.trace(norm, torch.randn(1 + size % 5, 16)).run(torch.randn(1 + size % 5, 16))
            size += 1

    busy = threading.Thread(target=keep_tracing)
    busy.start()
    try:
        statuses = [forked(lambda: traced(softmax, "dynamo")) for _ in range(2)]
    finally:
        stop.set()
        busy.join()
    assert statuses == [0, 0]


def forked(work: Callable[[], object]) -> int:
    """The exit status of a child that does the work."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        torch.set_num_threads(1)  # PyTorch's pool of threads is not there in a child, and it would wait for it
        work()
    except BaseException as error:
        sys.stderr.write(f"in the child: {error!r}\n")
        os._exit(1)
    os._exit(0)


@pytest.mark.test_all
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_child_asks_a_worker_of_its_own_and_does_not_keep_its_parents_alive() -> None:
    """Also where another thread of the parent is waiting for an answer, and has the lock, when it forks."""
    worker = pretender()
    worker.ask(Message({"kind": "good"}), 60)
    mine, asked = worker.pid, threading.Event()
    waits = threading.Thread(
        target=lambda: worker.ask(Message({"kind": "good", "sleep": 3}), 60, lambda stage: asked.set())
    )
    waits.start()
    asked.wait()

    def ask() -> None:
        assert worker.pid is None
        worker.ask(Message({"kind": "good"}), 60)
        assert worker.pid not in (None, mine)
        worker.end()

    assert forked(ask) == 0
    waits.join()
    assert worker.pid == mine
    worker.ask(Message({"kind": "good"}), 60)
    assert worker.started == 1
    left = os.fork()
    if not left:
        threading.Event().wait(60)
        os._exit(0)
    try:
        running = worker._running
        assert running is not None
        running.jobs.close()  # as when this process ends; the child lives on
        assert running.process.wait(30) == 0
    finally:
        os.kill(left, 9)
        os.waitpid(left, 0)
        worker.end()


@pytest.mark.test_all
def test_a_spawned_process_works() -> None:
    alone("""
import multiprocessing
import torch, workbench as wb
from tests.environment.test_threads import softmax, traced
if __name__ == "__main__":
    traced(softmax, "dynamo")
    child = multiprocessing.get_context("spawn").Process(target=traced, args=(softmax, "dynamo"))
    child.start(); child.join()
    raise SystemExit(child.exitcode)
""")


def test_a_compiler_has_its_garbage_collected_later() -> None:
    """The collector is off in the block, on again after it, also after an error; and stays as a person set it."""
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), compiling():
        assert not gc.isenabled()
        with compiling():
            assert not gc.isenabled()
        assert not gc.isenabled()
        _ = 1 // 0
    assert gc.isenabled()
    gc.disable()
    try:
        with compiling():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_stages_that_compile_have_their_garbage_collected_later() -> None:
    for compiles in (True, False):
        assert Once("stage", gc.isenabled, compiles=compiles)() is not compiles
    assert gc.isenabled()
