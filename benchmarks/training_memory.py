"""Memory of training: the peak of a step of GPT-2, and what many steps leave behind. Needs `/proc`, as Linux has it.

`--memory` trains GPT-2 (12 layers, random weights, 128 tokens, AdamW) in two fresh processes, once with PyTorch and
once with `j.run`. Each step begins with the peak set back; the peak of a step is the resident memory of the whole
process, with what its libraries take. The first step of each is told by itself: there the optimizer's state and native
kernels are made. `made` is the peak of `wb.trace` and of scheduling. The bar is the peak of a later step, below
`ALLOWED` times PyTorch's.

`--leak` trains a small model in one process and looks after some steps at the resident memory, at what the allocator
of C holds, and at how many objects Python's collector and how many tensors there are.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from memory import resident_mb
from trained_models import TRAINED, Step, optimizer_of, step_of

from workbench.models.shipped.gpt import GPT2

ROOT = Path(__file__).parents[1]

ALLOWED = 2.5

SIZES = {"full": {}, "small": {"layers": 2, "width": 64, "heads": 4, "words": 256, "longest": 128}}

STEPS = 3

LEAK_MB = 2.0
"""From the first look to the last."""


def set_peak_back() -> None:
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")


def peak_mb() -> float:
    """The most memory that this process had resident since the peak was set back."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def peaks(way: str, size: str) -> dict[str, Any]:
    """The peaks of steps, one `way` or the other, in this process."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = GPT2(**SIZES[size])
    step: Any = step_of(model, torch.optim.AdamW(model.parameters(), lr=1e-4), narrow=False)
    words = torch.randint(0, model.words.num_embeddings, (1, 129))
    x, y = words[:, :-1].contiguous(), words[:, 1:].contiguous()
    found: dict[str, Any] = {"begin": resident_mb()}
    if way == "run":
        import workbench as wb

        set_peak_back()
        journey = wb.trace(step, x, y, train=True)
        found["kernels"] = len(journey.scheduled.kernels)
        found["made"], step = peak_mb(), journey.run
    for number in range(STEPS):
        set_peak_back()
        step(x, y)
        found["first" if number == 0 else "later"] = peak_mb()
    found["resident"] = resident_mb()
    return found


def in_a_process(way: str, size: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "ATEN_WORKBENCH_CACHE": folder, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-W", "ignore", __file__, way, size]
        done = subprocess.run(command, env=environment, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def compare(size: str) -> int:
    """Prints the peaks of both ways; 1 if ours is too much."""
    found = {way: in_a_process(way, size) for way in ("eager", "run")}
    for way, figures in found.items():
        print(f"{way}: " + ", ".join(f"{key} {value:,.0f}" for key, value in figures.items()), flush=True)
    ratio = found["run"]["later"] / found["eager"]["later"]
    print(f"a step: {ratio:.2f} of PyTorch's peak (< {ALLOWED})  {'ok' if ratio < ALLOWED else 'TOO MUCH'}")
    return 0 if ratio < ALLOWED else 1


class _Mallinfo2(ctypes.Structure):
    """glibc's `struct mallinfo2`."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    )  # fmt: skip


def used_mb() -> float:
    """Memory that the allocator of C has given out and did not get back; NaN where it is not glibc's."""
    try:
        ask = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return float("nan")
    ask.restype = _Mallinfo2
    now = ask()
    return (now.uordblks + now.hblkhd) / 2**20


def counted_objects() -> dict[str, int]:
    """Objects that Python's collector knows, and the tensors among them."""
    objects = gc.get_objects()
    return {"objects": len(objects), "tensors": sum(isinstance(each, torch.Tensor) for each in objects)}


def left_behind(name: str, way: str, at: tuple[int, ...]) -> list[dict[str, float]]:
    """Memory and objects after so many steps."""
    import workbench as wb

    torch.manual_seed(0)
    model = TRAINED[name].model()
    batches = [TRAINED[name].batch() for _ in range(4)]
    step: Step = step_of(model, optimizer_of(way, model), narrow=way.endswith("bf16"))
    journey, seen = wb.trace(step, *batches[0], train=True), list[dict[str, float]]()
    counted_objects()  # the list of all objects takes some megabytes, which the allocator of C keeps
    for number in range(1, max(at) + 1):
        journey.run(*batches[number % 4])
        if number in at:
            counted = counted_objects()  # first: the list of all objects leaves room behind in the heap
            seen.append({"steps": number, "mb": resident_mb(), "used mb": used_mb(), **counted})
    return seen


def growing(seen: list[dict[str, float]]) -> list[str]:
    """The kinds of which there are more at the end than at the first look."""
    first, *_, last = seen
    grows = [key for key in ("objects", "tensors") if last[key] > first[key]]
    return [*grows, "resident memory"] if last["mb"] - first["mb"] > LEAK_MB else grows


def leak(steps: int) -> int:
    """Prints what is there after some steps of a small model; 1 if it grows."""
    seen = left_behind("mlp", "adamw", tuple(sorted({20, steps // 2 + 10, *range(200, steps, 200), steps})))
    for each in seen:
        print(", ".join(f"{value:,.1f} {key}" if "mb" in key else f"{value:,} {key}" for key, value in each.items()))
    grows = growing(seen)
    print(f"{' and '.join(grows)} grow  TOO MUCH" if grows else "nothing grows  ok")
    return 1 if grows else 0


if __name__ == "__main__":
    print(json.dumps(peaks(*sys.argv[1:])))
