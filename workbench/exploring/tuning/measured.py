"""Measures a kernel's mappings: each is scheduled and simulated as in a journey, here or in another process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future
from dataclasses import dataclass, replace
from typing import Any, Protocol

from simulator import HostCall, Launched, Machine, simulate
from simulator.records.spans import TOTALS
from simulator.tileprogram.program import TileProgram
from workbench.exploring.knobs.turned_knobs import refusal_of
from workbench.ground.environment.turns import turn
from workbench.ground.errors import Stopped, WorkbenchError
from workbench.ir import KernelModule, ScheduledKernel
from workbench.ir.kernel_identity import machine_key, module_key, schedule_key
from workbench.scheduling.schedule import KernelTrial
from workbench.scheduling.schedule_kernel import Near, context_for, schedule_kernel
from workbench.scheduling.user_mapping import UserMapping


@dataclass(frozen=True, slots=True)
class Measured:
    """The cost of one mapping, or the reason of its refusal."""

    cycles: int | None = None
    bytes: int | None = None
    """Bytes moved from and to DRAM."""
    refused: str = ""


@dataclass(frozen=True)
class Work:
    """A kernel to be measured with other mappings: plain data, which can be sent to another process."""

    module: KernelModule
    machine: Machine
    launches: tuple[Launched | HostCall, ...]
    """The launch that is measured: alone, or among all launches if its tensors' places depend on these."""
    launch: int
    """The index of the measured launch in `launches`."""
    asked: Mapping[str, Any]
    """The options of the journey's simulation."""
    near: Near
    passes: Mapping[str, tuple[str, ...]]
    untried: tuple[str, ...]
    """The kernel's nodes in words, if a worker process must schedule it first; else empty."""


def measure(work: Work, mapping: UserMapping) -> Measured:
    """The cost of a mapping of a kernel. It depends only on the arguments, so an executor may run this function."""
    try:
        return _cost(work, scheduled_with(work, mapping).program)
    except Stopped:
        raise
    except WorkbenchError as error:
        return Measured(refused=refusal_of(error))


def scheduled_with(work: Work, mapping: UserMapping) -> ScheduledKernel:
    """The kernel scheduled with a mapping; raises if the mapping is refused."""
    with turn():
        if work.untried:
            key = schedule_key(module_key(work.module), machine_key(work.machine), mapping, work.near)
            KernelTrial(work.module, work.machine, mapping, work.near, passes=work.passes).first(key, work.untried)
        return schedule_kernel(work.module, work.machine, mapping, context_for(work.passes), work.passes, work.near)


def cost_today(work: Work) -> Measured:
    """The cost of the kernel as it is scheduled in its journey."""
    return _cost(work, work.launches[work.launch].program)


def _cost(work: Work, program: TileProgram) -> Measured:
    """The cycles from the end of the previous launch to the end of this one, and the bytes of DRAM."""
    number, launches = work.launch, list(work.launches)
    launched = launches[number]
    assert isinstance(launched, Launched), "steps on the host have no mapping"
    launches[number] = replace(launched, program=program)
    trace = simulate(launches, work.machine, **work.asked)
    ends = [int(trace.done[rows].max(initial=0)) for rows in trace.rows_by_launch]
    moved = trace.totals[number, [TOTALS.index(name) for name in ("dram_read_bytes", "dram_write_bytes")]]
    return Measured(ends[number] - (ends[number - 1] if number else 0), int(moved.sum()))


class Executor(Protocol):
    """The part of a `concurrent.futures.Executor` that tuning needs; a cluster's client may have it too."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]: ...


def measured_in_order(work: Work, mappings: Sequence[UserMapping], executor: Executor | None) -> Iterator[Measured]:
    """Yields the costs of mappings in their order; an executor measures them in parallel."""
    if executor is None:
        yield from (measure(work, mapping) for mapping in mappings)
        return
    futures, ended = list[Future[Any]](), None
    try:
        try:
            for mapping in mappings:
                futures.append(_of_executor(lambda mapping=mapping: executor.submit(measure, work, mapping)))
        except (KeyboardInterrupt, BrokenExecutor) as error:  # costs measured so far are kept
            ended = error
        for future in futures:
            if ended and not future.done():
                break
            found = _of_executor(lambda future=future: future.result())
            if not isinstance(found, Measured) or not _is_a_cost(found):
                raise BrokenExecutor(f"a result of what it was given to run is {found!r:.60}")
            yield found
        if ended:
            raise ended
    finally:
        for future in futures:
            with contextlib.suppress(Exception):  # a broken executor may raise any
                future.cancel()


def _is_a_cost(found: Measured) -> bool:
    """True if cycles and bytes are possible results of a simulation."""
    counts = [each for each in (found.cycles, found.bytes) if each is not None]
    return all(type(each) is int and each >= 0 for each in counts) and found.cycles != 0


def _of_executor(asked: Callable[[], Any]) -> Any:
    """Returns an executor's result; raises `BrokenExecutor` for any of its exceptions. It may be of any kind: one that
    is shut down, a cluster that ran out of time, a process to which nothing can be sent."""
    try:
        return asked()
    except (Stopped, BrokenExecutor):
        raise
    except Exception as error:
        raise BrokenExecutor(f"{type(error).__name__}: {error}") from error
