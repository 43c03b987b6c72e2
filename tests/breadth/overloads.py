"""`python -m tests.breadth.overloads [--only TEXT] [--write]`: every overload of docs/operators.md that has a
kernel, in every combination of tensors and numbers that its schema allows, against PyTorch.

`--write` keeps the counts and what is not right in tests/breadth/overloads.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.breadth.judge import EQUALS, Verdict, difference
from tests.breadth.schemas import Given, calls, overloads
from tests.fuzz.__main__ import answers

RESULT = Path(__file__).with_name("overloads.json")
BATCH, SECONDS = 8, 240
WORKER = f"""
import faulthandler, json, sys
from tests.breadth.overloads import verdicts
for line in sys.stdin:
    faulthandler.dump_traceback_later({SECONDS}, exit=True)
    job = json.loads(line)
    found = verdicts(job)
    print("\\n@" + json.dumps([job, "done", json.dumps(found)]), flush=True)
"""
MOST = 25
"""Calls in one trace."""


def verdicts(overload: str) -> list[tuple[str, str, str]]:
    """Each call with its kind and details. They are traced together, and by themselves only where that fails."""
    found: list[tuple[str, str, str]] = []
    given = calls(overload)
    for start in range(0, len(given), MOST):
        part = given[start : start + MOST]
        together = judged(part)
        alone = [together] * len(part) if together.kind == "right" else [judged([each]) for each in part]
        found += [(str(each), one.kind, one.detail) for each, one in zip(part, alone, strict=True)]
    return found


def judged(given: Sequence[Given]) -> Verdict:
    """Right, host, told, wrong, raw, or left when the results are not the same twice."""
    import workbench as wb

    tensors = [each.tensors() for each in given]

    def program(*inputs: torch.Tensor) -> list[Any]:
        rest = iter(inputs)
        return [each.called([next(rest) for _ in own]) for each, own in zip(given, tensors, strict=True)]

    inputs = [tensor for own in tensors for tensor in own]

    def values(made: list[Any]) -> list[Any]:
        """Without the places of equals, of which any may be named."""
        open_ = [each.overload.split(".")[1] in EQUALS for each in given]
        return [one[0] if places and isinstance(one, tuple) else one for one, places in zip(made, open_, strict=True)]

    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        expected = program(*(each.clone() for each in inputs))
        if difference(program(*(each.clone() for each in inputs)), expected) or any(
            "empty" in one.overload for one in given
        ):
            return Verdict("left", "not the same twice")
        if len(given) == 1 and not captured_by_pytorch(given[0]):
            return Verdict("left", "PyTorch refuses it without data")
        try:
            journey = wb.trace(program, *inputs, capture="export")
            got = journey.run(*inputs)
        except wb.errors.NoTensorWork:
            return Verdict("left", "it gives back what it is given")
        except wb.errors.WorkbenchError as error:
            return Verdict("told", f"{type(error).__name__}: {error}"[:300])
        except Exception as error:
            return Verdict("raw", f"{type(error).__name__}: {error}"[:300])
        if problem := difference(values(got), values(expected)):
            return Verdict("wrong", problem)
        hosted = sorted({item.node.op for item in journey.lowered.record.nodes if item.route == "host"})
        return Verdict("host", " ".join(hosted)) if hosted else Verdict("right")


def captured_by_pytorch(given: Given) -> bool:
    """True if PyTorch takes the call on tensors without data, which is how any capture calls it."""
    mode = FakeTensorMode()
    try:
        with mode:
            given.called([mode.from_tensor(each) for each in given.tensors()])
    except (RuntimeError, TypeError, ValueError, NotImplementedError, ArithmeticError, LookupError):
        return False
    return True


ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--only", default="", help="overloads whose names hold this")
    parser.add_argument("--of", type=int, default=1, help="every so manieth overload")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    todo = [name for name in overloads() if given.only in name][:: given.of]
    counts, shown = Counter[str](), dict[str, list[str]]()
    for start in range(0, len(todo), BATCH):
        for name, (kind, detail) in answers(WORKER, todo[start : start + BATCH], SECONDS):
            found = json.loads(detail) if kind == "done" else [(name, kind, detail)]
            counts.update(kind for _, kind, _ in found)
            counts.update(["overloads"])
            for call, what, said in found:
                if what not in ("right", "left"):
                    shown[call] = [what, said.replace(f"{ROOT}/", "")]
                if what in ("wrong", "raw", "told", "dead"):
                    print(f"{call} {what}: {said}", flush=True)
        print(f"{start + BATCH} of {len(todo)}: {dict(counts)}", file=sys.stderr, flush=True)
    print(dict(sorted(counts.items())))
    if given.write:
        asked = {"of": given.of, "only": given.only}
        kept = {"asked": asked, "counts": dict(sorted(counts.items())), "shown": shown}
        RESULT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return int(any(kind not in ("host",) for kind, _ in shown.values()))


if __name__ == "__main__":
    sys.exit(main())
