"""python -m tests.stress [--seconds N] [--seed SEED] [--threads N]: threads use all verbs at once, and others watch."""

from __future__ import annotations

import argparse
import faulthandler
import os
import sys
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

import workbench as wb
from tests.stress.actions import VERBS, Actor
from tests.stress.shared import PROGRAMS, Watcher

WATCH = "watch"
PAUSE = 0.05
"""Seconds between two looks of a thread that watches: without them the others hardly come to act."""


class Stress:
    """The threads, what they did, and what they found wrong."""

    def __init__(self, seconds: float, seed: int) -> None:
        self.until, self.seed = time.monotonic() + seconds, seed
        self.done, self.wrong = Counter[str](), list[str]()
        self.busy: dict[int, tuple[str, float]] = {}
        """By thread: what it does, and since when."""

    def act(self, number: int, journeys: dict[str, Any]) -> None:
        actor, verbs = Actor(self.seed * 1000 + number, journeys), list(VERBS)
        actor.choose.shuffle(verbs)
        while verbs and time.monotonic() < self.until:
            verb = verbs.pop()
            self._do(number, verb, lambda verb=verb: actor.act(verb))
            verbs = verbs or actor.choose.sample(list(VERBS), len(VERBS))

    def watch(self, number: int, watcher: Watcher) -> None:
        def look() -> None:
            time.sleep(PAUSE)
            if found := watcher.look():
                raise AssertionError("; ".join(found[:5]))

        while time.monotonic() < self.until:
            self._do(number, WATCH, look)

    def _do(self, number: int, verb: str, work: Callable[[], None]) -> None:
        self.busy[number] = verb, time.monotonic()
        try:
            work()
        except Exception as error:  # anything that one thread alone would not meet
            told = "".join(traceback.format_exception(error)[-6:]) if verb != WATCH else ""
            self.wrong.append(f"{verb}: {type(error).__name__}: {error}\n{told}")
        self.done[verb] += 1
        del self.busy[number]

    def hung(self, allowed: float) -> list[str]:
        now = time.monotonic()
        return [f"{verb} for {now - since:.0f} s" for verb, since in [*self.busy.values()] if now - since > allowed]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=12)
    parser.add_argument("--hang", type=float, default=600.0, help="seconds that one action may take")
    asked = parser.parse_args()
    faulthandler.enable()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    lot = torch.Generator().manual_seed(asked.seed)
    journeys = {name: wb.trace(call, torch.randn(shape, generator=lot)) for name, (call, shape) in PROGRAMS.items()}
    watchers = [Watcher.begin(asked.seed + number) for number in range(max(asked.threads // 3, 1))]
    stress = Stress(asked.seconds, asked.seed)
    works = [lambda n=n, w=each: stress.watch(n, w) for n, each in enumerate(watchers)]
    works += [lambda n=n: stress.act(n, journeys) for n in range(len(watchers), asked.threads)]
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        time.sleep(0.5)
        if hung := stress.hung(asked.hang):
            print(f"hung: {hung}", file=sys.stderr)
            faulthandler.dump_traceback(all_threads=True)
            _report(stress, len(hung))
            os._exit(2)
    return _report(stress, 0)


def _report(stress: Stress, hung: int) -> int:
    for each in list(dict.fromkeys(stress.wrong))[:20]:
        print(each)
    looks = stress.done.pop(WATCH, 0)
    print(", ".join(f"{verb} {count:,}" for verb, count in sorted(stress.done.items())))
    if unused := sorted({*VERBS} - {*stress.done}):
        print(f"not once: {', '.join(unused)}")
    told = f"{stress.done.total():,} actions under {looks:,} looks"
    print(f"{told}, {len(stress.wrong)} wrong, {hung} hung, seed {stress.seed}", flush=True)
    return int(bool(stress.wrong))


if __name__ == "__main__":
    sys.exit(main())
