"""Kernels called on watched memory: what stays inside passes, each way of leaving it is told."""

from __future__ import annotations

import pytest
import torch

from workbench.running.guarded_call import Arguments, run_trial, run_watched
from workbench.running.jit import compile_scheduled

N = 16


def text(body: str) -> str:
    """A kernel from `%x` to `%y`, both of 16 floats; `%big` is `%y` as if it had more."""
    return f"""
func.func @k(%x: memref<{N}xf32, strided<[1]>>, %y: memref<{N}xf32, strided<[1]>>) {{
  %big = memref.reinterpret_cast %y to offset: [0], sizes: [1000], strides: [1]
    : memref<{N}xf32, strided<[1]>> to memref<1000xf32, strided<[1]>>
  affine.for %i = 0 to {N} {{
    %v = memref.load %x[%i] : memref<{N}xf32, strided<[1]>>
    memref.store %v, %y[%i] : memref<{N}xf32, strided<[1]>>
    {body}
  }}
  return
}}"""


def store(memref: str, kind: str, distance: int) -> str:
    """Stores at a distance from the place where it belongs."""
    return f"""
    %j = affine.apply affine_map<(d0) -> (d0 + {distance})>(%i)
    memref.store %v, {memref}[%j] : memref<{kind}>"""


GOOD = text("")
PAST = text(store("%big", "1000xf32, strided<[1]>", N))
FRONT = text(store("%y", f"{N}xf32, strided<[1]>", -N))
INPUT = text(f"%w = arith.negf %v : f32\n    memref.store %w, %x[%i] : memref<{N}xf32, strided<[1]>>")
READS = text(f"""
    %j = affine.apply affine_map<(d0) -> (d0 + {N})>(%i)
    %r = memref.load %big[%j] : memref<1000xf32, strided<[1]>>
    memref.store %r, %y[%i] : memref<{N}xf32, strided<[1]>>""")


def watched(source: str) -> tuple[str, list[str]]:
    """Runs a kernel that touches no forbidden page under watch; returns the finding and its steps."""
    stages: list[str] = []
    native = compile_scheduled(source, "k")
    content = torch.arange(1.0, N + 1).numpy().tobytes()
    return run_watched(native, ["x", "y"], [content, None], stages.append), stages


def test_a_kernel_that_keeps_to_its_memory_is_called_twice() -> None:
    found, stages = watched(GOOD)
    assert (found, stages) == ("", ["run", "run at the very end of its memory"])


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (PAST, "writes 64 bytes past argument y"),
        (FRONT, "writes 64 bytes in front of argument y"),
        (INPUT, "writes into argument x, which is an input"),
    ],
)
def test_what_is_written_elsewhere_is_told_in_bytes(source: str, expected: str) -> None:
    assert watched(source)[0] == expected


def test_the_bytes_of_a_tensor_go_over_with_its_gaps() -> None:
    x = torch.arange(12.0).reshape(3, 4)[:, 1:3]
    trial = run_trial("scheduled", GOOD, "k", (), Arguments(("x", "y"), [x, x], 1))
    (block,) = trial.material().blocks
    assert torch.frombuffer(bytearray(block), dtype=torch.float32).tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]


def test_the_same_kernel_by_another_name_is_the_same_work() -> None:
    x = Arguments(("x", "y"), [torch.zeros(N)] * 2, 1)
    keys = {run_trial("scheduled", GOOD.replace("@k(", f"@{name}("), name, (), x).key for name in ("k", "other")}
    assert len(keys) == 1
    assert run_trial("rendered", GOOD, "k", (), x).key not in keys
