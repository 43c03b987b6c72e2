"""`python -m tests.breadth [--dtypes float32 ...] [--samples 2] [--only TEXT] [--write]`: PyTorch's own sample calls.

Each is compiled with `torch.compile(backend="npu")` in a worker process, and counted as right, told, wrong,
raw or dead.
`--write` keeps the counts and what is not right in tests/breadth/result.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.breadth.judge import DTYPES, Verdict, jobs
from tests.fuzz.__main__ import answers

RESULT = Path(__file__).with_name("result.json")
BATCH = 150
SECONDS = 90
"""A call that takes longer counts as hanging."""
WORKER = f"""
import faulthandler, json, sys
from tests.breadth.judge import judge
for line in sys.stdin:
    faulthandler.dump_traceback_later({SECONDS}, exit=True)
    job = json.loads(line)
    verdict = judge(*job)
    print("\\n@" + json.dumps([job, verdict.kind, verdict.detail]), flush=True)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--dtypes", nargs="+", default=list(DTYPES[:5]), choices=DTYPES)
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--only", default="", help="operators whose names hold this")
    parser.add_argument("--of", type=int, default=1, help="every so manieth call")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    todo = [list(job) for job in jobs(tuple(given.dtypes), given.samples) if given.only in job[0]][:: given.of]
    begun, counts, shown = time.monotonic(), dict[str, Counter[str]](), list[tuple[Any, Verdict]]()
    for start in range(0, len(todo), BATCH):
        for job, (kind, detail) in answers(WORKER, todo[start : start + BATCH], SECONDS):
            verdict = Verdict(kind, detail)
            counts.setdefault(job[1], Counter())[kind] += 1
            if kind not in ("right", "host", "left"):
                shown.append((job, verdict))
                print(f"\n{' '.join(map(str, job))} {kind}: {detail[:1500]}", flush=True)
        print(
            f"{start + BATCH} of {len(todo)}, {time.monotonic() - begun:.0f} s: {counts}", file=sys.stderr, flush=True
        )
    for dtype, each in counts.items():
        print(f"{dtype}: {dict(sorted(each.items()))}")
    if given.write:
        listed = {
            "asked": {"samples": given.samples, "of": given.of, "only": given.only},
            "counts": {dtype: dict(sorted(each.items())) for dtype, each in counts.items()},
            "shown": {" ".join(map(str, job)): [one.kind, one.detail.splitlines()[0][:300]] for job, one in shown},
        }
        RESULT.write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
    return int(any(verdict.bad for _, verdict in shown))


if __name__ == "__main__":
    sys.exit(main())
