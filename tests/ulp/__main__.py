"""Sweeps every operator in every float type and writes `docs/ulp.md`: `python -m tests.ulp [--jobs N] [NAME ...]`.

With names, parts of overloads, only those are swept, and their rows of the page are written anew.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor

import torch

from tests.ulp.overload_calls import calls
from tests.ulp.page import PATH, known, line, page, rows
from tests.ulp.ulp_sweep import DTYPES, Found, swept


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.ulp", description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    every = [call.overload for call in calls()]
    names = [name for name in every if not given.names or any(part in name for part in given.names)]
    wanted = [(name, dtype) for name in names for dtype in DTYPES]
    os.environ["ATEN_WORKBENCH_KERNEL_CACHE"] = "off"
    with ProcessPoolExecutor(given.jobs, multiprocessing.get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        found: list[Found] = []
        for each in pool.map(swept, wanted):
            if each is not None:
                found.append(each)
                if given.names or not each.ok:
                    sys.stdout.write(line(each) + "\n")
                    sys.stdout.flush()
    kept = {name: cells for name, cells in known().items() if name in every}
    PATH.write_text(page(kept | rows(names, found)))
    return 0 if all(each.ok for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
