# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false
"""A mapping written down as a transform-dialect script.

Where the kernel is spread over cores, the op that makes the output is first cut into their shares, by an `scf.forall`,
and everything it reads is fused into that. The two levels below are within each share.

Two levels. The outer loops walk tiles of the parallel dims: the op that makes the output is tiled and everything
it reads is fused into its loops, so that intermediate tiles never leave the scratchpad. The inner loops walk tiles of
the reduced dims: a contraction accumulates along k, and what makes its operands is fused into that loop; in a
reduction kernel every op over the reduced dim gets its own
inner loop (two ops cannot share one, since the second needs the finished result of the first).
"""

from __future__ import annotations

from workbench.errors import MappingOrder
from workbench.ir import Mapping
from workbench.mlir.named_dims import ID, Payload, PayloadOp
from workbench.scheduling.core_split import share

_HANDLE = "!transform.any_op"


def splits_reduction(payload: Payload, mapping: Mapping) -> bool:
    """Whether a vector reduction is walked in tiles, so that its elementwise neighbours must be recomputed per pass."""
    return payload.contraction is None and any(mapping.tile[dim] < payload.dims[dim] for dim in payload.reduced)


def transform_script(payload: Payload, mapping: Mapping) -> str:
    """The named sequence that tiles and fuses the payload as the mapping says."""
    lines = ["transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {"]
    lines += _spread(payload, mapping)
    payload = share(payload, mapping.cores)
    lines += _outer(payload, mapping)
    for op in payload.ops:
        sizes = _inner_sizes(op, payload, mapping)
        if any(sizes):
            into = payload.prologue if op is payload.contraction else ()
            lines += _tile(op, sizes, mapping.order, "inner", "tile_using_for", into)
    lines += ["  transform.yield", "}"]
    return "\n".join(lines)


def check_order(kernel: str, payload: Payload, mapping: Mapping) -> None:
    """Reduced dims must come last: a tile's accumulator stays in the scratchpad until its reduction is done."""
    dims = share(payload, mapping.cores).dims
    tiled = [dim for dim in mapping.order if mapping.tile[dim] < dims[dim]]
    first = next((place for place, dim in enumerate(tiled) if dim in payload.reduced), len(tiled))
    late = [dim for dim in tiled[first:] if dim not in payload.reduced]
    if late:
        raise MappingOrder(kernel, mapping.order, tuple(payload.reduced), tuple(late))


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
    if last.role == "copy":
        cut = f"tile_using_forall %op{last.id}cores tile_sizes {sizes}"
    else:
        cut = f"fuse %op{last.id}cores tile_sizes {sizes} {{apply_cleanup, use_forall}}"
    return [
        f"  %op{last.id}cores = {_match(last)}",
        f"  %share{last.id}, %cores{last.id} = transform.structured.{cut} : ({_HANDLE}) -> ({_HANDLE}, {_HANDLE})",
        _CLEAN.format(f"{last.id}cores"),
    ]


def _outer(payload: Payload, mapping: Mapping) -> list[str]:
    last = payload.last
    tiled = [dim for dim in last.loops if dim not in payload.reduced and mapping.tile[dim] < payload.dims[dim]]
    if not tiled:
        return []
    sizes = [mapping.tile[dim] if dim in tiled else 0 for dim in last.loops]
    kind = "tile_using_for" if last.role == "copy" else "fuse"
    return _tile(last, sizes, mapping.order, "outer", kind)


def _inner_sizes(op: PayloadOp, payload: Payload, mapping: Mapping) -> list[int]:
    if payload.contraction is not None and op is not payload.contraction:
        return []
    reduced = payload.reduced if payload.contraction is None else op.reduced
    return [mapping.tile[dim] if dim in reduced and mapping.tile[dim] < payload.dims[dim] else 0 for dim in op.loops]


def _tile(
    op: PayloadOp,
    sizes: list[int],
    order: tuple[str, ...],
    level: str,
    kind: str,
    into: tuple[PayloadOp, ...] = (),
) -> list[str]:
    """Tiles an op, and moves others that it reads `into` its loops."""
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
        *(line for each in reversed(into) for line in _moved(each, f"%loops{name}{'#0' * (loops > 1)}")),
        _CLEAN.format(name),
    ]


def _moved(op: PayloadOp, loop: str) -> list[str]:
    """The op computed a tile at a time where the loop reads it."""
    return [
        f"  %op{op.id}into = {_match(op)}",
        f"  %tile{op.id}, %around{op.id} = transform.structured.fuse_into_containing_op %op{op.id}into into {loop}"
        f" : ({_HANDLE}, {_HANDLE}) -> ({_HANDLE}, {_HANDLE})",
    ]


def _match(op: PayloadOp) -> str:
    return f"transform.structured.match attributes {{{ID} = {op.id} : i64}} in %root : ({_HANDLE}) -> {_HANDLE}"
