"""A mapping written down as a transform-dialect script.

If the kernel is spread over cores, the op that makes the output is first cut into the cores' shares, by an
`scf.forall`, and everything this op reads is fused into it. Within each share there are two levels of loops.

The outer loops walk tiles of the parallel dims: the op that makes the output is tiled and everything it reads is fused
into its loops, so that intermediate tiles never leave the scratchpad. The inner loops walk tiles of the reduced dims: a
contraction accumulates along k, and the ops that make its operands are fused into that loop; in a reduction kernel
every op over the reduced dim gets its own inner loop (two ops cannot share a loop, since the second needs the finished
result of the first).

A parallel dim that the order has inside a reduced one is walked by the inner loops. Then the sums of all its tiles stay
in the scratchpad, and the ops that use the sums, at least the store, get their own loops after the reduction.
"""

from __future__ import annotations

from workbench.ir import Mapping
from workbench.mlir.named_dims import ID, Payload, PayloadOp
from workbench.scheduling.core_split import share
from workbench.scheduling.loop_order import inside_reduced

_HANDLE = "!transform.any_op"


def splits_reduction(payload: Payload, mapping: Mapping) -> bool:
    """True if a vector reduction is walked in tiles: its elementwise neighbours are then recomputed in each walk."""
    return payload.contraction is None and any(mapping.tile[dim] < payload.dims[dim] for dim in payload.reduced)


def transform_script(payload: Payload, mapping: Mapping) -> str:
    """The named sequence that tiles and fuses the payload as the mapping says."""
    lines = ["transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {"]
    lines += _spread(payload, mapping)
    payload = share(payload, mapping.cores)
    inside = inside_reduced(payload, mapping.tile, mapping.order)
    lines += _outer(payload, mapping, inside)
    for op in payload.ops:
        sizes = _inner_sizes(op, payload, mapping, inside)
        if any(sizes):
            into = payload.prologue if op is payload.contraction else ()
            whole = op is payload.last and not {*op.loops} & {*_walked(op, payload)}
            kind = "fuse" if whole and op.role != "copy" else "tile_using_for"
            lines += _tile(op, sizes, mapping.order, "inner", kind, into)
    lines += ["  transform.yield", "}"]
    return "\n".join(lines)


_CLEAN = f"""\
  %f{{0}} = transform.structured.match ops{{{{["func.func"]}}}} in %root : ({_HANDLE}) -> {_HANDLE}
  transform.apply_patterns to %f{{0}} {{{{
    transform.apply_patterns.canonicalization
    transform.apply_patterns.tensor.fold_tensor_empty
  }}}} : {_HANDLE}
  transform.apply_cse to %f{{0}} : {_HANDLE}"""


def _spread(payload: Payload, mapping: Mapping) -> list[str]:
    """Cuts the op that makes the output into the shares of the cores."""
    last, mine = payload.last, share(payload, mapping.cores).dims
    sizes = [mine[dim] if mine[dim] < payload.dims[dim] else 0 for dim in last.loops]
    if not any(sizes):
        return []
    if _is_alone(payload):
        cut = f"tile_using_forall %op{last.id}cores tile_sizes {sizes}"
    else:
        cut = f"fuse %op{last.id}cores tile_sizes {sizes} {{apply_cleanup, use_forall}}"
    cut_dims = {dim for dim, size in zip(last.loops, sizes, strict=True) if size}
    shared = [op for op in payload.prologue if not cut_dims & {*op.loops}]
    return [
        f"  %op{last.id}cores = {_match(last)}",
        f"  %share{last.id}, %cores{last.id} = transform.structured.{cut} : ({_HANDLE}) -> ({_HANDLE}, {_HANDLE})",
        # Values that all shares read whole are not fused by this, but each core must make them in its own scratchpad.
        *(line for op in reversed(shared) for line in _moved(op, f"%cores{last.id}", "cores")),
        _CLEAN.format(f"{last.id}cores"),
    ]


def _outer(payload: Payload, mapping: Mapping, inside: tuple[str, ...]) -> list[str]:
    last = payload.last
    still = (*payload.reduced, *inside)
    tiled = [dim for dim in last.loops if dim not in still and mapping.tile[dim] < payload.dims[dim]]
    if not tiled:
        return []
    sizes = [mapping.tile[dim] if dim in tiled else 0 for dim in last.loops]
    return _tile(last, sizes, mapping.order, "outer", "tile_using_for" if _is_alone(payload) else "fuse")


def _is_alone(payload: Payload) -> bool:
    """True if the last op is a copy of an argument: it works on memrefs, into whose loops nothing can be fused."""
    return payload.last.role == "copy" and not payload.reduced


def _inner_sizes(op: PayloadOp, payload: Payload, mapping: Mapping, inside: tuple[str, ...]) -> list[int]:
    walked = _walked(op, payload)
    if {*walked} & {*op.loops} or (inside and _has_own_loops(op, payload)):
        walked += inside
    return [mapping.tile[dim] if dim in walked and mapping.tile[dim] < payload.dims[dim] else 0 for dim in op.loops]


def _walked(op: PayloadOp, payload: Payload) -> tuple[str, ...]:
    """The reduced dims that an op walks in its own loops."""
    if payload.contraction is None:
        return payload.reduced
    return op.reduced if op is payload.contraction else ()


def _has_own_loops(op: PayloadOp, payload: Payload) -> bool:
    """True if an op has its own loops over the parallel dims inside a reduced one: the last op, which uses the sums,
    and the fill with zeros of a product's sums, which needs no instruction if it fills just one tile."""
    product = payload.contraction
    zeros = product is not None and op.role == "fill" and {*op.loops} == {*product.loops} - {*product.reduced}
    return zeros or op is payload.last


def _tile(
    op: PayloadOp,
    sizes: list[int],
    order: tuple[str, ...],
    level: str,
    kind: str,
    into: tuple[PayloadOp, ...] = (),
) -> list[str]:
    """The lines that tile an op, and that fuse the ops `into`, which it reads, into its loops."""
    loops = sum(size > 0 for size in sizes)
    permutation = sorted(range(len(sizes)), key=lambda loop: order.index(op.loops[loop]))
    interchange = "" if loops < 2 or permutation == sorted(permutation) else f" interchange = {permutation}"
    if kind == "fuse":
        interchange = interchange.replace(" = ", " ")
        options = f"tile_sizes {sizes}{interchange} {{apply_cleanup}}"
    else:
        options = f"tile_sizes {sizes}{interchange}"
    results = ", ".join([_HANDLE] * (loops + 1))
    name = f"{op.id}{level}"
    return [
        f"  %op{name} = {_match(op)}",
        f"  %tiled{name}, %loops{name}:{loops} = transform.structured.{kind} %op{name} {options}"
        f" : ({_HANDLE}) -> ({results})",
        *(line for each in reversed(into) for line in _moved(each, f"%loops{name}{'#0' * (loops > 1)}", "into")),
        _CLEAN.format(name),
    ]


def _moved(op: PayloadOp, loop: str, level: str) -> list[str]:
    """The lines that fuse an op into a loop, which then computes only the part that its tile reads."""
    name = f"{op.id}{level}"
    return [
        f"  %op{name} = {_match(op)}",
        f"  %tile{name}, %around{name} = transform.structured.fuse_into_containing_op %op{name} into {loop}"
        f" : ({_HANDLE}, {_HANDLE}) -> ({_HANDLE}, {_HANDLE})",
    ]


def _match(op: PayloadOp) -> str:
    return f"transform.structured.match attributes {{{ID} = {op.id} : i64}} in %root : ({_HANDLE}) -> {_HANDLE}"
