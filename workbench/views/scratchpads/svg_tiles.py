"""The tensors of a kernel as grids of tiles, as inline SVG; `jupyter/plot_tiles.py` draws the same geometry."""

from __future__ import annotations

from workbench.views.basics.markup import escape
from workbench.views.scratchpads.tile_grids import (
    LONG,
    Grid,
    Tile,
    caption,
    drawn,
    grids,
    label,
    size_of,
    strength,
)
from workbench.views.scratchpads.tiles import TensorMoves, Tiling, moved_text

_LEFT, _TOP, _FOOT = 22, 6, 18


def tiles_svg(view: Tiling) -> str:
    """A picture for each tensor that is moved, side by side, and what the colours mean."""
    parts = [_panel(grid, told) for grid, told in zip(grids(view), view.tensors, strict=True)]
    if not parts:
        return '<p class="soft">the kernel moves nothing between DRAM and the scratchpad</p>'
    bar = f"display:inline-block;width:120px;height:10px;border-radius:2px;background:{_gradient()}"
    told = (
        f'<div class="legend"><span>moved first</span><span style="{bar}"></span><span>moved last</span>'
        "<span>numbers: the first move of a tile; (2x): it is moved twice</span></div>"
    )
    return f'<div style="display:flex;flex-wrap:wrap;gap:14px 26px">{"".join(parts)}</div>{told}'


def _gradient() -> str:
    return f"linear-gradient(to right,{_mixed(0)},{_mixed(1)})"


def _mixed(age: float) -> str:
    return f"color-mix(in srgb,var(--k-LOAD) {100 * strength(age):.0f}%,var(--ground))"


def _panel(grid: Grid, moved: TensorMoves) -> str:
    width, height = size_of(grid)
    parts = [_tile(tile, grid, width, height) for tile in drawn(grid)]
    frame = f'x="{_LEFT}" y="{_TOP}" width="{width:.1f}" height="{height:.1f}"'
    parts.append(f'<rect {frame} style="fill:none;stroke:var(--soft);stroke-width:1"/>')
    parts.append(_axes(grid, width, height))
    whole = f"0 0 {_LEFT + width + 4:.0f} {_TOP + height + _FOOT:.0f}"
    lines = [*caption(grid), moved_text(moved)]
    told = "".join(f'<div class="soft">{escape(line)}</div>' for line in lines)
    label = f"{grid.tensor} as a grid of tiles"
    return (
        f'<div style="max-width:{_LEFT + LONG + 4:.0f}px;font-size:12px"><div><b>{escape(grid.tensor)}</b> '
        f'<span class="soft">{escape(grid.access)}</span></div>'
        f'<svg role="img" aria-label="{escape(label)}" viewBox="{whole}" '
        f'style="width:{_LEFT + width + 4:.0f}px;max-width:100%">{"".join(parts)}</svg>{told}</div>'
    )


def _tile(tile: Tile, grid: Grid, width: float, height: float) -> str:
    across, down = width / max(grid.columns, 1), height / max(grid.rows, 1)
    left, top = _LEFT + tile.left * across, _TOP + tile.top * down
    wide, high = (tile.right - tile.left) * across, (tile.bottom - tile.top) * down
    edge = ' stroke="var(--ground)" stroke-width="1"' if min(wide, high) > 5 else ""
    text = label(tile, wide, high)
    at = f'x="{left + wide / 2:.1f}" y="{top + high / 2 + 3.8:.1f}" text-anchor="middle" font-size="11"'
    written = f"<text {at}>{escape(text)}</text>" if text else ""
    return (
        f'<g><title>{escape(grid.told(tile))}</title><rect x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" '
        f'height="{high:.1f}" style="fill:{_mixed(tile.age)}"{edge}/>{written}</g>'
    )


def _axes(grid: Grid, width: float, height: float) -> str:
    small = 'font-size="10" class="soft" text-anchor="middle"'
    parts = list[str]()
    if grid.axes[1] >= 0:
        at = f'x="{_LEFT + width / 2:.1f}" y="{_TOP + height + 13:.1f}"'
        parts.append(f"<text {at} {small}>axis {grid.axes[1]}: {grid.columns:,}</text>")
    if grid.axes[0] >= 0:
        middle = _TOP + height / 2
        turn = f'x="14" y="{middle:.1f}" transform="rotate(-90 14 {middle:.1f})"'
        text = f"axis {grid.axes[0]}: {grid.rows:,}" if height > 70 else f"{grid.rows:,}"
        parts.append(f"<text {turn} {small}>{text}</text>")
    return "".join(parts)
