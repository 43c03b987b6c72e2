"""The search for faster mappings of a journey's kernels, each distinct kernel once."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from workbench.explaining.artefacts.staged import J, Staged
from workbench.exploring.knobs.knob import kernel_of, scheduled_kernel
from workbench.exploring.tuning.explored import Explored
from workbench.exploring.tuning.map_space import MapSpace
from workbench.exploring.tuning.measured import Executor, Work, cost_today, measured_in_order
from workbench.exploring.tuning.tuning_answer import Tuning
from workbench.ground.environment.progress import at, reached, waiting
from workbench.ground.environment.registered import PASSES
from workbench.ground.environment.turns import turn
from workbench.ground.errors import BadOption
from workbench.ir import ScheduledKernel
from workbench.ir.kernels import USER_SCRIPT
from workbench.operators.aten.proven import unproven
from workbench.operators.aten.registry import DEFAULT
from workbench.scheduling.mapping_space import mapping_space
from workbench.scheduling.passes.wanted_passes import checked_passes
from workbench.scheduling.planning.common_memory_plan import served
from workbench.scheduling.prepared_kernel import PreparedKernel, context_for
from workbench.stages.pipeline import code_of

if TYPE_CHECKING:
    from workbench.stages.journey_request import Request


INTERRUPTED = "interrupted"


def map_space(journey: Staged, request: Request, kernel: str, simulate: int, executor: Executor | None) -> MapSpace:
    """The map space of one kernel, with its first `simulate` candidates simulated."""
    check_count("simulate", simulate, 0)
    check_executor(executor, request)
    made = scheduled_kernel(journey.scheduled.record, kernel_of(journey, kernel))
    if why := why_not(journey, made):
        raise BadOption(f"mapspace({kernel!r}): {why}")
    with waiting(f"map space of {made.kernel}"), PASSES.as_of(request.own_passes), request.blaming_the_file():
        work = work_of(journey, request, made)
        explored = explored_of(work, made)
        places = range(min(simulate, len(explored.space.candidates)))
        try:
            _measure(work, explored, places, executor, len(places))
        except BrokenExecutor as error:
            raise BadOption(f"mapspace({kernel!r}): the executor broke: {error}") from error
    return MapSpace(explored)


def tuned(
    journey: J,
    request: Request,
    kernels: Sequence[str] | None,
    budget: int,
    seed: int,
    executor: Executor | None,
) -> Tuning[J]:
    """Tunes the journey's kernels, or the named ones: finds the fastest mapping of each."""
    check_count("budget", budget, 1)
    check_count("seed", seed, 0)
    check_executor(executor, request)
    scheduled = journey.scheduled.record
    names = [each.kernel for each in scheduled.kernels]
    if kernels is not None:
        if wrong := [name for name in kernels if not isinstance(name, str)]:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BadOption(f"kernels={kernels!r:.80}: {wrong[0]!r:.40} is no name of a kernel, such as 'k0'")
        asked = {scheduled_kernel(scheduled, kernel_of(journey, name)).kernel for name in kernels}
        names = [name for name in names if name in asked]
    left_out = {name: why for name in names if (why := why_not(journey, scheduled.kernel(name)))}
    answer = Tuning(journey, request.said(journey.lowered.record), budget, seed, left_out=left_out)
    try:
        with waiting("tune"), PASSES.as_of(request.own_passes), request.blaming_the_file():
            for name in (each for each in names if each not in left_out):
                _tune(answer, work_of(journey, request, scheduled.kernel(name)), scheduled.kernel(name), executor)
    except KeyboardInterrupt:
        answer.stopped = INTERRUPTED
    except BrokenExecutor as error:
        answer.stopped = f"the executor broke: {error}"
    done = {each.kernel for each in answer.explored}
    answer.left_out |= {name: f"not reached: {answer.stopped}" for name in names if name not in {*done, *left_out}}
    return answer


def nothing_tuned(journey: J, request: Request, budget: int, seed: int) -> Tuning[J]:
    """The answer of a search that was interrupted before its first kernel."""
    return Tuning(journey, request.said(journey.lowered.record), budget, seed, stopped=INTERRUPTED)


def _tune(answer: Tuning[J], work: Work, kernel: ScheduledKernel, executor: Executor | None) -> None:
    at(kernel.kernel)
    explored = explored_of(work, kernel)
    answer.explored.append(explored)
    for batch in explored.batches(answer.budget, answer.seed):
        _measure(work, explored, batch, executor, answer.budget)


def _measure(work: Work, explored: Explored, places: Sequence[int], executor: Executor | None, total: int) -> None:
    """Measures candidates and stores each cost as soon as it is known."""
    todo = [place for place in places if place not in explored.costs]
    mappings = [explored.mapping(place) for place in todo]
    for place, cost in zip(todo, measured_in_order(work, mappings, executor), strict=True):
        explored.costs[place] = cost
        reached(min(len(explored.costs), total), total)


def explored_of(work: Work, kernel: ScheduledKernel) -> Explored:
    """The kernel's space, with the current mapping measured."""
    with turn():
        ready = PreparedKernel(work.module, context_for(work.passes), work.passes, work.near)
        space = mapping_space(partial(ready.payload_with, work.machine), work.machine, kernel.mapping)
    today = next(place for place, each in enumerate(space.candidates) if each.mapping is kernel.mapping)
    return Explored(kernel.kernel, space, today, {today: cost_today(work)})


def work_of(journey: Staged, request: Request, kernel: ScheduledKernel) -> Work:
    """A kernel's first launch as work to measure: alone, unless a plan of all launches decides tensors' places."""
    scheduled, trace = journey.scheduled, journey.simulated.record
    number = next(
        place for place, launch in enumerate(scheduled.record.launches.launches) if launch.kernel == kernel.kernel
    )
    launches, planned = trace.launches, any(trace.asked.values())
    if not planned:
        launches, number = (replace(launches[number], after=()),), 0
    module = next(each for each in scheduled.rendered if each.kernel == kernel.kernel)
    registrations = request.registrations if request.registrations is not None else DEFAULT.now()
    lowered, passes = journey.lowered.record, checked_passes(code_of(request, journey.rendered).passes)
    untried = unproven(lowered, registrations).get(module.kernel, ())
    near = served(scheduled.record).get(kernel.kernel, frozenset[int]()) if planned else frozenset[int]()
    return Work(module, request.machine, launches, number, trace.asked, near, passes, untried)


def why_not(journey: Staged, kernel: ScheduledKernel) -> str:
    """The reason why a kernel has no map space; empty if it has one."""
    module = next(each for each in journey.scheduled.rendered if each.kernel == kernel.kernel)
    if module.handwritten:
        return "a template writes its loops, so there is no space of mappings to look through"
    if kernel.mapping.reason == USER_SCRIPT:
        return "a transform script tiles it: j.with_(schedule=None) leaves it to mappings"
    return ""


def check_count(name: str, given: object, least: int) -> None:
    if not isinstance(given, int) or isinstance(given, bool) or given < least:
        raise BadOption(f"{name}={given!r}: expected a whole number, {least} or more")


def check_executor(executor: object, request: Request) -> None:
    if executor is None:
        return
    if not callable(getattr(executor, "submit", None)):
        told = "expected a concurrent.futures.Executor, or what else has its submit(function, *arguments)"
        raise BadOption(f"executor={executor!r:.80}: {told}")
    if request.passes:
        raise BadOption("executor=: this journey has passes=, Python functions that no other process has; leave it out")
