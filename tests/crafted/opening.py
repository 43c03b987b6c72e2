"""Opens crafted files one by one, each in a child of its own, and says what became of it.

Reads lines of JSON `[path, seconds]` and answers each with `{"outcome": ..., "told": ..., "seconds": ..., "mb": ...}`.
With `--acts` each is also changed, tried and tuned, which takes PyTorch and MLIR.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import workbench as wb
from tests.crafted.craft import CANARY, MARK
from workbench.ground.errors import WorkbenchError

PATIENCE = 12
"""A file may take so many times its seconds of processor by the clock, before it is said to hang."""


def show(journey: wb.Journey) -> None:
    """Everything that a person can look at without the function: it raises what any of it raises."""
    for stage in (journey.captured, journey.lowered, journey.rendered, journey.scheduled, journey.simulated):
        assert repr(stage) and stage.text() is not None and stage.table is not None
        assert MARK not in stage.html()
    captured, lowered, simulated = journey.captured, journey.lowered, journey.simulated
    looked = [repr(journey), captured.inputs, captured.params, captured.breaks, lowered.fusions, lowered.kernel_table]
    looked += [(each.ops, each.inputs, each.outputs) for each in lowered.kernels]
    for kernel in journey.rendered.kernels:
        looked += [kernel.lines, kernel.text(), kernel.html()]
    for kernel in journey.scheduled.kernels:
        looked += [kernel.table, kernel.text(), kernel.html(), kernel.dims, kernel.buffers, kernel.passes]
        looked += [kernel.program.instruction(index) for index in range(len(kernel.program))]
    looked += [simulated.events, simulated.stats, simulated.by_kernel, simulated.by_op, simulated.stalls]
    looked += [simulated.waterfall, simulated.critical_path, simulated.energy, simulated.memory, simulated.bandwidth]
    looked += [simulated.links, simulated.placement, simulated.time_us]
    looked += [simulated.transfers, simulated.roofline.table, simulated.roofline.html()]
    for name in (*(node.name for node in captured.record.nodes), *(each.name for each in lowered.kernels)):
        looked.append(repr(journey.select(name)))
    if len(simulated.record):
        looked.append(repr(journey.select(0)))
    journey.to_html("page.html")
    assert MARK not in Path("page.html").read_text()
    journey.to_perfetto("trace.json")
    journey.save("again.journey")
    looked.append(wb.compare(journey, journey))
    wb.simulate(lowered, journey.scheduled, machine=journey.machine, seconds=3)


def act(journey: wb.Journey) -> set[str]:
    """Everything that a person can do with a journey of a file, and the classes of the errors that any of it was told:
    one refusal does not keep them from trying the next thing."""
    kernels = [kernel.name for kernel in journey.scheduled.kernels]
    other = "tpu-v3" if journey.machine.name != "tpu-v3" else "edge-8x8"
    tries: list[Callable[[], object]] = [
        lambda: journey.knobs().table,
        lambda: [journey.knobs(name).table for name in kernels],
        lambda: journey.findings.table,
        lambda: journey.findings.tried().table,
        lambda: journey.with_(mapping={"*": {"buffers": 1}}).simulated.cycles,
        lambda: journey.with_(fusion="none").simulated.cycles,
        lambda: journey.with_(machine=other).simulated.cycles,
        lambda: journey.with_(passes=None, schedule=None, mapping=None).simulated.cycles,
        lambda: journey.tuned(budget=2, kernels=kernels[:1]).journey.simulated.cycles,
        lambda: journey.scheduled.mapspace(kernels[0], simulate=1).table,
        lambda: turned(journey, kernels[0]),
        lambda: lab_page(journey),
    ]
    told = set[str]()
    for number, each in enumerate(tries):
        try:
            each()
        except WorkbenchError as error:
            told.add(f"{number}: {type(error).__name__}")
    return told


def turned(journey: wb.Journey, kernel: str) -> object:
    """A knob turned as the lab turns it, in a thread of its own."""
    with journey.experiment() as session:
        return session.turn("buffers", 1, kernel=kernel).wait(60)


def lab_page(journey: wb.Journey) -> None:
    """The page in which everything can be pressed."""
    journey.to_html("lab.html", interactive=True)
    assert MARK not in Path("lab.html").read_text()


def tried(path: str, *, acts: bool = False) -> set[str]:
    """Opens a journey file and shows it; tells the errors of what else was tried with it."""
    journey = wb.load(path)
    show(journey)
    return act(journey) if acts else set()


def judged(look: Callable[[], set[str]]) -> dict[str, str]:
    """Looks at a file from an empty folder, and names the outcome."""
    there = _marked()
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            contextlib.chdir(folder),
            warnings.catch_warnings(action="ignore"),
        ):
            told = look()
            if made := _marked() - there:
                return {"outcome": "acts", "told": f"it made {', '.join(sorted(made))}"}
    except WorkbenchError as error:
        return {"outcome": "told", "told": f"{type(error).__name__}: {str(error)[:300]}"}
    except Exception:
        return {"outcome": "raw", "told": traceback.format_exc()[-1500:]}
    return {"outcome": "shown", "told": ", ".join(sorted(told))}


def _marked() -> set[str]:
    """Files that some text of a crafted file names."""
    return {str(path) for folder in (Path(), Path("/tmp")) for path in folder.glob(f"*{CANARY}*")}


def in_a_child(look: Callable[[], set[str]], seconds: float) -> dict[str, Any]:
    """The same where a crash, a hang and all memory that is taken are the child's alone."""
    give, take = os.pipe()
    child = os.fork()
    if not child:
        signal.setitimer(signal.ITIMER_PROF, seconds)  # of processor: others may keep it busy
        signal.alarm(int(PATIENCE * seconds))
        os.write(take, json.dumps(judged(look)).encode())
        os._exit(0)
    os.close(take)
    with os.fdopen(give, "rb") as answer:
        text = answer.read()
    _, status, used = os.wait4(child, 0)
    found: dict[str, Any] = json.loads(text) if text else {"outcome": "dead", "told": f"status {status}"}
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGPROF, signal.SIGALRM):
        found = {"outcome": "hangs", "told": f"more than {seconds} s"}
    return {**found, "seconds": used.ru_utime + used.ru_stime, "mb": used.ru_maxrss / 1024}


def main() -> None:
    """Loads all that opening takes once, with whole files, so that children do not."""
    acts = sys.argv[1:2] == ["--acts"]
    for whole in sys.argv[1 + acts :]:
        print(json.dumps(judged(partial(tried, whole, acts=acts))), flush=True)
    for line in sys.stdin:
        path, seconds = json.loads(line)
        print(json.dumps(in_a_child(partial(tried, path, acts=acts), seconds)), flush=True)


if __name__ == "__main__":
    main()
