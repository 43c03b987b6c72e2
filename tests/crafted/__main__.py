"""python -m tests.crafted N [--seed SEED]: crafts N files, opens each, and counts what became of them."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.crafted.craft import crafted, crafted_texts
from tests.crafted.judge import Opener, originals, report, verdicts


def _opener(asked: argparse.Namespace, folder: str) -> Opener:
    return Opener(originals(Path(folder)), acts=asked.acts)


def main() -> int:
    parser = argparse.ArgumentParser(description="Crafts journey files and opens them.", allow_abbrev=False)
    parser.add_argument("count", type=int, nargs="?", default=2000, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=5.0, help="in which each is shown or refused")
    parser.add_argument("--megabytes", type=float, default=500.0, help="that no process takes more of")
    parser.add_argument("--texts", action="store_true", help="change texts alone: scripts, paths, passes, long runs")
    parser.add_argument("--acts", action="store_true", help="also change, try and tune each: with PyTorch and MLIR")
    asked = parser.parse_args()
    craft = crafted_texts if asked.texts else crafted
    seeds = range(asked.seed, asked.seed + asked.count)
    with tempfile.TemporaryDirectory() as folder, _opener(asked, folder) as opener:
        return report(verdicts(opener, seeds, Path(folder), asked.seconds, craft), seeds, asked.megabytes)


if __name__ == "__main__":
    sys.exit(main())
