"""Opens crafted files one by one, each in a child of its own, and says what became of it.

Reads lines of JSON `[path, seconds]` and answers each with `{"outcome": ..., "told": ..., "seconds": ..., "mb": ...}`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import workbench as wb
from simulator.errors import WorkbenchError
from tests.crafted.craft import MARK


def show(journey: wb.Journey, folder: Path) -> None:
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
    journey.to_html(folder / "page.html")
    assert MARK not in (folder / "page.html").read_text()
    journey.to_perfetto(folder / "trace.json")
    journey.save(folder / "again.journey")
    looked.append(wb.compare(journey, journey))
    wb.simulate(lowered, journey.scheduled, machine=journey.machine, seconds=3)


def tried(path: str) -> dict[str, str]:
    """What becomes of one file."""
    try:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            show(wb.load(path), Path(folder))
    except WorkbenchError as error:
        return {"outcome": "told", "told": f"{type(error).__name__}: {str(error)[:300]}"}
    except Exception:
        return {"outcome": "raw", "told": traceback.format_exc()[-1500:]}
    return {"outcome": "shown", "told": ""}


def in_a_child(path: str, seconds: float) -> dict[str, object]:
    """The same where a crash, a hang and all memory that is taken are the child's alone."""
    give, take = os.pipe()
    began = time.monotonic()
    child = os.fork()
    if not child:
        signal.alarm(int(seconds))
        os.write(take, json.dumps(tried(path)).encode())
        os._exit(0)
    os.close(take)
    with os.fdopen(give, "rb") as answer:
        text = answer.read()
    _, status, used = os.wait4(child, 0)
    found: dict[str, object] = json.loads(text) if text else {"outcome": "dead", "told": f"status {status}"}
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
        found = {"outcome": "hangs", "told": f"more than {seconds} s"}
    return {**found, "seconds": time.monotonic() - began, "mb": used.ru_maxrss / 1024}


def main() -> None:
    """Loads all that opening takes once, with whole files, so that children do not."""
    for whole in sys.argv[1:]:
        print(json.dumps(tried(whole)), flush=True)
    for line in sys.stdin:
        path, seconds = json.loads(line)
        print(json.dumps(in_a_child(path, seconds)), flush=True)


if __name__ == "__main__":
    main()
