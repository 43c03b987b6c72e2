"""Files to craft from, and a process that opens what was crafted."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import workbench as wb
from tests.crafted.craft import crafted

Craft = Callable[[bytes, int], tuple[str, bytes]]
"""Makes what was done, and the file, of a whole file and a seed."""

BAD = ("raw", "dead", "hangs", "acts")


@dataclass(frozen=True)
class Found:
    """The outcome of opening a file in one way."""

    way: str
    outcome: str
    """"told", "shown", or one of `BAD`."""
    told: str
    seconds: float
    megabytes: float


def _broken(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    if y.sum() > 0:
        y = y + 1
    return torch.relu(y)


def _programs() -> dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], wb.Machine]]:
    torch.manual_seed(0)
    edge, table = wb.machine("edge-8x8"), nn.Embedding(10, 8).eval()
    two, x = wb.machine("tpu-v3", cores=2, interconnect="mesh"), torch.randn(33, 70)
    perceptron = nn.Sequential(nn.Linear(24, 40), nn.ReLU(), nn.Linear(40, 8)).eval()
    return {
        "perceptron": (perceptron, (torch.randn(16, 24),), edge),
        "softmax": (lambda x: torch.softmax(x, -1), (x,), wb.machine("tpu-v3")),
        "embedding": (lambda i: table(i), (torch.randint(0, 10, (5,)),), edge),
        "host": (lambda x: torch.linalg.det(x) + 1, (torch.randn(4, 4),), edge),
        "broken": (_broken, (torch.ones(4, 4),), edge),
        "cores": (lambda a, b: F.gelu(a @ b), (torch.randn(64, 64), torch.randn(64, 64)), two),
        "banked": (lambda x: x + 1, (x,), wb.machine("tpu-v3", memory="banked")),
    }


def originals(folder: Path, names: Sequence[str] | None = None) -> list[Path]:
    """Whole files of journeys that differ in what they hold."""
    paths: list[Path] = []
    for name, (function, inputs, machine) in _programs().items():
        if names is None or name in names:
            paths.append(folder / f"{name}.journey")
            wb.trace(function, *inputs, machine=machine).save(paths[-1])
    return paths


class Opener:
    """A process that opens files, each in a child of its own; without PyTorch, unless it also `acts` on them."""

    def __init__(self, paths: list[Path], *, acts: bool = False, under: Sequence[str] = ()) -> None:
        self.originals = [path.read_bytes() for path in paths]
        command = [*under, sys.executable, "-m", "tests.crafted.opening", *["--acts"] * acts, *map(str, paths)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for path in paths:
            first = self._answer()
            assert first["outcome"] == "shown", f"{path.name} itself: {first}"

    def __enter__(self) -> Opener:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def open(self, path: Path, seconds: float) -> dict[str, Any]:
        assert self._process.stdin
        self._process.stdin.write(json.dumps([str(path), seconds]) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout
        return json.loads(self._process.stdout.readline() or '{"outcome": "dead", "told": "the opener itself"}')


def verdicts(
    opener: Opener, seeds: Iterable[int], folder: Path, seconds: float, craft: Craft = crafted
) -> Iterator[tuple[int, Found]]:
    """Opens the file of each seed, and yields the seed and the outcome."""
    path = folder / "crafted.journey"
    for seed in seeds:
        way, data = craft(opener.originals[seed % len(opener.originals)], seed)
        path.write_bytes(data)
        found = opener.open(path, seconds)
        yield seed, Found(way, found["outcome"], found["told"], found.get("seconds", 0.0), found.get("mb", 0.0))


def report(found: Iterable[tuple[int, Found]], seeds: range, megabytes: float) -> int:
    """Prints each bad file and the count of each outcome; returns the exit status."""
    counts: Counter[str] = Counter()
    slowest, largest = 0.0, 0.0
    for seed, each in found:
        slowest, largest = max(slowest, each.seconds), max(largest, each.megabytes)
        outcome = each.outcome
        if outcome not in BAD and each.megabytes > megabytes:
            outcome = "takes too much memory"
        counts[outcome] += 1
        if outcome not in ("told", "shown"):
            print(f"\nseed {seed} ({each.way}): {outcome}: {each.told}")
        if sum(counts.values()) % 50 == 0:
            print(f"\r{sum(counts.values()):,} of {len(seeds):,}: {dict(counts)}", end="", file=sys.stderr)
    print(file=sys.stderr)
    print(f"{len(seeds):,} files from seed {seeds.start}: {dict(counts)}")
    print(f"the slowest took {slowest:.1f} s of processor, the largest process {largest:.0f} MB")
    return int(set(counts) - {"told", "shown"} != set())
