"""The example models of `wb.models`, each compiled, simulated, run and checked.

    python benchmarks/models.py --table [--only gpt unet] [--size full] [--machine tpu-v3]

With `--table` the rows are one table of Markdown, otherwise a line of JSON each. The kernels of a model are
compiled anew, in an empty folder. A model that cannot be made or traced has its error in place of figures.

    cycles      of the whole call on the machine
    kernels     that are launched
    host        steps on the host
    check       `j.check`: the results beside PyTorch's in 64 bits
    compile     seconds of the clock from the call of `wb.trace` to the end of the first `j.run`
    run/eager   processor time of `j.run` over that of PyTorch, on one thread, each the fastest of several calls
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from printed_rows import printed

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

COLUMNS = ("model", "cycles", "kernels", "host", "check", "compile", "run/eager")


def measured(name: str, size: str, machine: str, seconds: float) -> dict[str, Any]:
    """One row."""
    import torch

    import workbench as wb

    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        example = wb.models.get(name, size=size)
        began = time.perf_counter()
        journey = wb.trace(example.module, *example.inputs, kwargs=example.kwargs, machine=machine)
        journey.run(*example.inputs, kwargs=copy.deepcopy(dict(example.kwargs)))
        compiled = time.perf_counter() - began
        check = journey.check()
    except wb.WorkbenchError as error:
        return {"model": name, "error": f"{type(error).__name__}: {error}"}
    hosts = Counter(item.node.op for item in journey.lowered.record.nodes if item.route == "host")
    with torch.no_grad():
        ours = fastest(lambda kwargs: journey.run(*example.inputs, kwargs=kwargs), example.kwargs, seconds)
        theirs = fastest(lambda kwargs: example.module(*example.inputs, **kwargs), example.kwargs, seconds)
    return {
        "model": name,
        "cycles": journey.simulated.cycles,
        "kernels": len(journey.lowered.kernels),
        "host": dict(hosts),
        "check": check.ok,
        "compile": compiled,
        "run/eager": ours / theirs,
    }


def fastest(call: Callable[[dict[str, object]], object], kwargs: Any, seconds: float) -> float:
    """The least processor time of calls that together take so many seconds; each has arguments of its own to change."""
    best, spent = float("inf"), 0.0
    while spent < seconds:
        given = copy.deepcopy(dict(kwargs))
        began = time.process_time()
        call(given)
        best = min(best, time.process_time() - began)
        spent += time.process_time() - began
    return best


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    if "error" in row:
        return f"| {row['model']} | {row['error'].partition('. ')[0]} |" + " |" * (len(COLUMNS) - 2)
    hosts = ", ".join(f"{count} `{op}`" for op, count in row["host"].items()) or "none"
    cells = [
        row["model"], f"{row['cycles']:,}", str(row["kernels"]), hosts, "right" if row["check"] else "wrong",
        f"{row['compile']:.1f} s", f"{row['run/eager']:.2f}",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--only", nargs="+", help="models, instead of all")
    parser.add_argument("--size", default="small", choices=("small", "full"))
    parser.add_argument("--machine", default="tpu-v3")
    parser.add_argument("--seconds", type=float, default=1.0, help="of processor time for each of run and eager")
    parser.add_argument("--table", action="store_true", help="a table of Markdown in place of lines of JSON")
    options = parser.parse_args()
    import workbench as wb

    names = options.only or wb.models.names()
    made = (measured(name, options.size, options.machine, options.seconds) for name in names)
    rows = printed(made, COLUMNS, line, table=options.table)
    return 0 if all(row.get("check") for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
