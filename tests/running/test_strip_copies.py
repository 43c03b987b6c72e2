"""Copies that a strip can spare, and those that have to stay."""

from __future__ import annotations

import pytest
import torch

from tests.fresh_process import python
from workbench.mlir.bindings import named
from workbench.mlir.context import new_context, parse, run_passes
from workbench.running.jit import compile_rendered
from workbench.running.row_strips import cut_into_strips

ROWS = "memref<256x256xf32, strided<[256, 1]>>"
APART = "memref<256x256xf32, strided<[1024, 4]>>"
TILE = "memref<256x256xf32>"
SAME = "affine_map<(i, j) -> (i, j)>"


def pointwise(inputs: str, output: str, kinds: str, kind: str, body: str) -> str:
    """An op of equal indexing of all operands, given by names and types."""
    count = inputs.count("%")
    arguments = ", ".join([*(f"%x{each}: f32" for each in range(count)), "%old: f32"])
    return (
        f"linalg.generic {{indexing_maps = [{', '.join([SAME] * (count + 1))}], "
        f'iterator_types = ["parallel", "parallel"]}} ins({inputs} : {kinds}) outs({output} : {kind}) {{\n'
        f"^bb0({arguments}):\n  {body}\n  linalg.yield %y : f32\n}}"
    )


def kernel(given: str, *ops: str, made: str = ROWS, buffers: int = 2) -> str:
    names = [f"%{letter}" for letter in "abcd"[:buffers]]
    allocs = "\n".join(f"{name} = memref.alloc() : {TILE}" for name in names)
    return f"func.func @k(%in: {given}, %out: {made}) {{\n{allocs}\n" + "\n".join(ops) + "\nreturn\n}"


def copy(source: str, kind: str, target: str, to: str) -> str:
    return f"linalg.copy ins({source} : {kind}) outs({target} : {to})"


def load(kind: str = ROWS) -> str:
    return copy("%in", kind, "%a", TILE)


STORE = copy("%b", TILE, "%out", ROWS)
SQUARE = pointwise("%a", "%b", TILE, TILE, "%y = arith.mulf %x0, %x0 : f32")
ADDING = pointwise("%a", "%b", TILE, TILE, "%y = arith.addf %x0, %old : f32")
AGAIN = pointwise("%a", "%a", TILE, TILE, "%y = arith.addf %x0, %x0 : f32")
INTO_GIVEN = pointwise("%a", "%in", TILE, ROWS, "%y = arith.mulf %x0, %x0 : f32")
OF_BOTH = pointwise("%a, %in", "%b", f"{TILE}, {ROWS}", TILE, "%y = arith.addf %x0, %x1 : f32")
FROM_RESULT = pointwise("%a, %out", "%b", f"{TILE}, {ROWS}", TILE, "%y = arith.addf %x0, %x1 : f32")

PROGRAMS = {
    "load and store": (kernel(ROWS, load(), SQUARE, STORE), 0),
    "copies only": (kernel(ROWS, load(), copy("%a", TILE, "%b", TILE), STORE), 1),
    "a tensor read beside its buffer": (kernel(ROWS, load(), OF_BOTH, STORE), 0),
    "a load of elements that lie apart": (kernel(APART, load(APART), SQUARE, STORE), 1),
    "a store of elements that lie apart": (
        kernel(ROWS, load(), SQUARE, copy("%b", TILE, "%out", APART), made=APART),
        1,
    ),
    "sums go on": (kernel(ROWS, load(), SQUARE, ADDING, STORE), 1),
    "a buffer changed in place": (kernel(ROWS, load(), AGAIN, SQUARE, STORE), 1),
    "a tensor changed while its buffer is read": (kernel(ROWS, load(), INTO_GIVEN, SQUARE, STORE), 1),
    "a result that is read": (kernel(ROWS, load(), FROM_RESULT, STORE), 1),
    "a buffer read after its store": (
        kernel(ROWS, load(), SQUARE, STORE, pointwise("%b", "%in", TILE, ROWS, "%y = arith.mulf %x0, %x0 : f32")),
        2,
    ),
}

UNDEFINED = {
    "sums begin with what was there": (kernel(ROWS, load(), ADDING, STORE), 1),
    "a buffer is read, then filled": (kernel(ROWS, SQUARE, load(), STORE), 1),
}
"""They read what nobody wrote, so that only their form can be looked at."""


def copies_left(text: str) -> int:
    module = parse(text, new_context(torch_dialect=True))
    run_passes(module, "func.func(linalg-generalize-named-ops)")
    cut_into_strips(module)
    assert module.operation.verify()
    bodies = [
        [op.operation.name for op in each.regions[0].blocks[0].operations] for each in named(module, "linalg.generic")
    ]
    return sum(names == ["linalg.yield"] for names in bodies)


@pytest.mark.parametrize("name", [*PROGRAMS, *UNDEFINED])
def test_copies_that_are_left(name: str) -> None:
    text, expected = (PROGRAMS | UNDEFINED)[name]
    assert copies_left(text) == expected


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_stay(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, _ = PROGRAMS[name]
    found: list[list[torch.Tensor]] = []
    for spared in (True, False):
        if not spared:
            monkeypatch.setattr("workbench.running.row_strips.spare_copies", lambda ops, buffers: None)
        native = compile_rendered(text, "k")
        lot = torch.Generator().manual_seed(3)
        given = [torch.empty_strided(each.shape, each.strides).uniform_(generator=lot) for each in native.layouts]
        native(given)
        found.append(given)
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


@pytest.mark.test_all
def test_ops_that_are_left_out_are_not_looked_at_again() -> None:
    """Freed memory is overwritten here, where it mostly holds by chance what was there."""
    code = (
        "import torch, workbench as wb\n"
        "j = wb.trace(lambda x: torch.softmax(x, -1), torch.randn(512, 512))\n"
        "assert abs(float(j.run(torch.randn(512, 512)).sum()) - 512) < 1e-2"
    )
    overwriting = {
        "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0",
        "MALLOC_PERTURB_": "165",
        "ATEN_WORKBENCH_KERNEL_CACHE": "off",
    }
    python("-c", code, **overwriting)
