"""`python -m tests.fuzz N [--from SEED] [--jobs J]`: judges N seeds in workers that may die, and says what came out."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Any

from tests.fuzz.fuzz_program import Program
from tests.fuzz.generate import generate
from tests.fuzz.judge import Verdict
from tests.fuzz.shrink import shrink

BATCH = 25
"""Seeds a worker judges before another takes over: a dead one costs no more than its batch."""
SECONDS = 120
"""A program that takes longer counts as hanging."""
WORKER = """
import json, sys
from tests.fuzz.generate import generate
from tests.fuzz.judge import judge
for line in sys.stdin:
    seed = json.loads(line)
    verdict = judge(generate(seed))
    print("\\n@" + json.dumps([seed, verdict.kind, verdict.detail]), flush=True)
"""


TRAINER = """
import json, sys
from tests.fuzz.training_steps import judged_step
for line in sys.stdin:
    seed = json.loads(line)
    verdict = judged_step(seed)
    print("\\n@" + json.dumps([seed, verdict.kind, verdict.detail]), flush=True)
"""

ADVISER = TRAINER.replace("training_steps", "net_advice").replace("judged_step", "judged_advice")
CONVOLVER = TRAINER.replace("training_steps", "conv_nets").replace("judged_step", "judged_net")


def judged(worker: str, seeds: list[int]) -> list[tuple[int, Verdict]]:
    """The verdicts of some seeds."""
    return [(seed, Verdict(*found)) for seed, found in answers(worker, seeds, SECONDS)]


def answers(worker: str, jobs: list[Any], seconds: float) -> list[tuple[Any, list[str]]]:
    """Each job with its answer, a kind and a detail, from a process that runs `worker`.

    One that ends or hangs is the answer to the job that it was at, and another takes over.
    """
    found: list[tuple[Any, list[str]]] = []
    while len(found) < len(jobs):
        rest = jobs[len(found) :]
        lines = "".join(json.dumps(job) + "\n" for job in rest)
        try:
            done = subprocess.run(
                [sys.executable, "-c", worker],
                input=lines,
                capture_output=True,
                text=True,
                timeout=seconds * len(rest),
                env={**os.environ, "OMP_NUM_THREADS": "1"},  # workers share the processor among themselves
            )
            out, ended = done.stdout, f"the process ended with {done.returncode}: {done.stderr[-400:]}"
        except subprocess.TimeoutExpired as late:
            out, ended = (late.stdout or b"").decode(), "the process hangs"
        for line in out.splitlines():
            if line.startswith("@"):
                job, kind, detail = json.loads(line[1:])
                found.append((job, [kind, detail]))
        if len(found) < len(jobs):
            found.append((jobs[len(found)], ["dead", ended]))
    return found


def same_failure(kind: str) -> Callable[[Program], bool]:
    """Whether a program fails in this way, tried in a process of its own."""

    def fails(program: Program) -> bool:
        code = (
            "import sys, json\nfrom tests.fuzz.judge import judge\nfrom tests.fuzz.fuzz_program import *\n"
            f"print('@' + judge({program!r}).kind)"
        )
        try:
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return kind == "dead"
        said = [line[1:] for line in done.stdout.splitlines() if line.startswith("@")]
        return said == [kind] if done.returncode == 0 else kind == "dead" and not said

    return fails


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("count", type=int)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--show", type=int, default=10, help="how many failures are shrunk and printed")
    parser.add_argument("--train", action="store_true", help="training steps of the programs, with their gradients")
    parser.add_argument("--conv", action="store_true", help="with --train: of convolutional nets instead")
    parser.add_argument("--advice", action="store_true", help="the findings of convolutional nets instead, all tried")
    given = parser.parse_args()
    if given.conv and not given.train:
        parser.error("--conv draws training steps: give --train as well")
    worker = ADVISER if given.advice else CONVOLVER if given.conv else TRAINER if given.train else WORKER
    seeds = iter(range(given.first, given.first + given.count))
    batches = list(iter(lambda: list(islice(seeds, BATCH)), []))
    begun, counts, hosted = time.monotonic(), Counter[str](), Counter[str]()
    bad, losing = list[tuple[int, Verdict]](), list[tuple[int, Verdict]]()
    with ThreadPoolExecutor(given.jobs) as pool:
        for verdicts in pool.map(partial(judged, worker), batches):
            for seed, verdict in verdicts:
                counts[verdict.kind] += 1
                hosted.update(verdict.detail.split() if verdict.kind == "host" else ())
                losing += [(seed, verdict)] if verdict.kind == "loses" else []
                if verdict.kind not in ("ok", "host", "none", "loses"):
                    bad.append((seed, verdict))
                    print(f"\nseed {seed} {verdict.kind}: {verdict.detail}", file=sys.stderr, flush=True)
            print(f"{counts.total()} of {given.count}: {dict(counts)}", file=sys.stderr, flush=True)
    for seed, verdict in [] if given.train or given.advice else bad[: given.show]:
        smallest = shrink(generate(seed), same_failure(verdict.kind), attempts=40)
        print(f"\n# seed {seed} {verdict.kind}: {verdict.detail}\n{smallest.text()}", flush=True)
    for seed, verdict in losing:
        print(f"seed {seed} loses: {verdict.detail}")
    print(f"{given.count} programs in {time.monotonic() - begun:.0f} s: {dict(counts)}")
    if hosted:
        print("on the host: " + ", ".join(f"{op} {count}" for op, count in hosted.most_common()))
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
