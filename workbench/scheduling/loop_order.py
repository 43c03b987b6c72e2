"""The order of a mapping's loops: which parallel dims are walked inside a reduced one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench.mlir.named_dims import Access, Payload


def inside_reduced(payload: Payload, tile: Mapping[str, int], order: Sequence[str]) -> tuple[str, ...]:
    """Parallel dims whose loops are inside a loop over a reduced dim, outermost first; `payload` is a core's share.

    The sums of all tiles along these dims stay in the scratchpad until the reduction is done.
    """
    tiled = [dim for dim in order if tile[dim] < payload.dims[dim]]
    first = next((place for place, dim in enumerate(tiled) if dim in payload.reduced), len(tiled))
    return tuple(dim for dim in tiled[first:] if dim not in payload.reduced)


def refused_order(payload: Payload, tile: Mapping[str, int], order: Sequence[str]) -> str:
    """The reason why a kernel cannot have this order, empty if it can. With a parallel loop inside a reduced one,
    several products would each load their shared operand, and results stored before the kernel's last op would be
    stored again in every iteration of the reduction."""
    inside = inside_reduced(payload, tile, order) if payload.products > 1 or payload.stored_before_last else ()
    if not inside:
        return ""
    said = f"order {list(order)!r} has the loop over {inside[0]} inside one over a reduced dim, but this kernel "
    if payload.products > 1:
        return said + (
            f"has {payload.products} products, which would load what they share once for each of them so. Put reduced "
            "dims last, or give each product its own kernel: fusion={'off': ['products of one operand']}"
        )
    return said + (
        "stores results of several ops, and would move all but the last one with every part of a sum so. Put reduced "
        "dims last, or give each its own kernel: fusion={'off': ['several results', 'reductions of one operand']}"
    )


def refused_cut(payload: Payload, tile: Mapping[str, int], dims: Mapping[str, int]) -> str:
    """The reason why a kernel cannot have a tile that cuts a reduced dim, empty if it can. `dims` are the kernel's dims
    if its reductions are split."""
    if dims == payload.dims:
        return ""
    cut = ", ".join(dim for dim in payload.reduced if tile[dim] < payload.dims[dim])
    return (
        f"the tile cuts {cut}, which is reduced, so each walk makes anew what it reads. Here that is a constant, which "
        f"then has no place of its own, and the kernel has other dims. Leave {cut} whole"
    )


def loops_of(access: Access, payload: Payload, tile: Mapping[str, int], order: Sequence[str]) -> list[str]:
    """The loops in whose iterations a tensor is moved, outermost first, without inner loops that do not index it.

    A tensor without reduced dims is used before or after the reduction, in loops over parallel dims alone.
    """
    reduces = any(dim in payload.reduced for dim in access.dims)
    loops = [dim for dim in order if tile[dim] < payload.dims[dim] and (reduces or dim not in payload.reduced)]
    while loops and loops[-1] not in access.dims:
        loops.pop()
    return loops
