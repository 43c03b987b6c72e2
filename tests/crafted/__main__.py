"""python -m tests.crafted N [--seed SEED]: crafts N files, opens each, and counts what became of them."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.crafted.judge import BAD, Opener, originals, verdicts


def main() -> int:
    parser = argparse.ArgumentParser(description="Crafts journey files and opens them.", allow_abbrev=False)
    parser.add_argument("count", type=int, nargs="?", default=2000, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=5.0, help="in which each is shown or refused")
    parser.add_argument("--megabytes", type=float, default=500.0, help="that no process takes more of")
    asked = parser.parse_args()
    counts: Counter[str] = Counter()
    slowest, largest = 0.0, 0.0
    with tempfile.TemporaryDirectory() as folder, Opener(originals(Path(folder))) as opener:
        for seed, found in verdicts(opener, range(asked.seed, asked.seed + asked.count), Path(folder), asked.seconds):
            slowest, largest = max(slowest, found.seconds), max(largest, found.megabytes)
            outcome = found.outcome
            if outcome not in BAD and found.megabytes > asked.megabytes:
                outcome = "takes too much memory"
            counts[outcome] += 1
            if outcome not in ("told", "shown"):
                print(f"\nseed {seed} ({found.way}): {outcome}: {found.told}")
            if sum(counts.values()) % 50 == 0:
                print(f"\r{sum(counts.values()):,} of {asked.count:,}: {dict(counts)}", end="", file=sys.stderr)
    print(file=sys.stderr)
    print(f"{asked.count:,} files from seed {asked.seed}: {dict(counts)}")
    print(f"the slowest took {slowest:.1f} s, the largest process {largest:.0f} MB")
    return int(set(counts) - {"told", "shown"} != set())


if __name__ == "__main__":
    sys.exit(main())
