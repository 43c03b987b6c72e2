"""The tensors of a kernel as grids of tiles, as inline SVG; `jupyter/plot_tiles.py` draws the same geometry."""

from __future__ import annotations

from markupsafe import Markup

from workbench.explaining.views.scratchpads.tile_grids import (
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
from workbench.explaining.views.scratchpads.tiles import TensorMoves, Tiling, moved_text
from workbench.ground.basics.html_builder import html, joined

_LEFT, _TOP, _FOOT = 22, 6, 18


def tiles_svg(view: Tiling) -> Markup:
    """A picture for each tensor that is moved, side by side, and what the colours mean."""
    parts = [_panel(grid, told) for grid, told in zip(grids(view), view.tensors, strict=True)]
    if not parts:
        return html('<p class="soft">the kernel moves nothing between DRAM and the scratchpad</p>')
    bar = f"display:inline-block;width:120px;height:10px;border-radius:2px;background:{_gradient()}"
    told = html(
        '<div class="legend"><span>moved first</span><span style="{bar}"></span><span>moved last</span>'
        "<span>numbers: the first move of a tile; (2x): it is moved twice</span></div>",
        bar=bar,
    )
    return html('<div style="display:flex;flex-wrap:wrap;gap:14px 26px">{}</div>{told}', joined(parts), told=told)


def _gradient() -> str:
    return f"linear-gradient(to right,{_mixed(0)},{_mixed(1)})"


def _mixed(age: float) -> str:
    return f"color-mix(in srgb,var(--k-LOAD) {100 * strength(age):.0f}%,var(--ground))"


def _panel(grid: Grid, moved: TensorMoves) -> Markup:
    width, height = size_of(grid)
    parts = [_tile(tile, grid, width, height) for tile in drawn(grid)]
    frame = html(
        'x="{left}" y="{top}" width="{width:.1f}" height="{height:.1f}"',
        left=_LEFT,
        top=_TOP,
        width=width,
        height=height,
    )
    parts.append(html('<rect {frame} style="fill:none;stroke:var(--soft);stroke-width:1"/>', frame=frame))
    parts.append(_axes(grid, width, height))
    whole = f"0 0 {_LEFT + width + 4:.0f} {_TOP + height + _FOOT:.0f}"
    lines = [*caption(grid), moved_text(moved)]
    told = joined(html('<div class="soft">{line}</div>', line=line) for line in lines)
    label = f"{grid.tensor} as a grid of tiles"
    return html(
        '<div style="max-width:{:.0f}px;font-size:12px"><div><b>{}</b> '
        '<span class="soft">{}</span></div>'
        '<svg role="img" aria-label="{label}" viewBox="{whole}" '
        'style="width:{:.0f}px;max-width:100%">{}</svg>{told}</div>',
        _LEFT + LONG + 4,
        grid.tensor,
        grid.access,
        _LEFT + width + 4,
        joined(parts),
        label=label,
        whole=whole,
        told=told,
    )


def _tile(tile: Tile, grid: Grid, width: float, height: float) -> Markup:
    across, down = width / max(grid.columns, 1), height / max(grid.rows, 1)
    left, top = _LEFT + tile.left * across, _TOP + tile.top * down
    wide, high = (tile.right - tile.left) * across, (tile.bottom - tile.top) * down
    edge = html(' stroke="var(--ground)" stroke-width="1"') if min(wide, high) > 5 else ""
    text = label(tile, wide, high)
    at = html('x="{:.1f}" y="{:.1f}" text-anchor="middle" font-size="11"', left + wide / 2, top + high / 2 + 3.8)
    written = html("<text {at}>{text}</text>", at=at, text=text) if text else ""
    return html(
        '<g><title>{}</title><rect x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" '
        'height="{high:.1f}" style="fill:{}"{edge}/>{written}</g>',
        grid.told(tile),
        _mixed(tile.age),
        left=left,
        top=top,
        wide=wide,
        high=high,
        edge=edge,
        written=written,
    )


def _axes(grid: Grid, width: float, height: float) -> Markup:
    small = html('font-size="10" class="soft" text-anchor="middle"')
    parts = list[Markup]()
    if grid.axes[1] >= 0:
        at = html('x="{:.1f}" y="{:.1f}"', _LEFT + width / 2, _TOP + height + 13)
        parts.append(html("<text {at} {small}>axis {}: {:,}</text>", grid.axes[1], grid.columns, at=at, small=small))
    if grid.axes[0] >= 0:
        middle = _TOP + height / 2
        turn = html('x="14" y="{middle:.1f}" transform="rotate(-90 14 {middle:.1f})"', middle=middle)
        text = f"axis {grid.axes[0]}: {grid.rows:,}" if height > 70 else f"{grid.rows:,}"
        parts.append(html("<text {turn} {small}>{text}</text>", turn=turn, small=small, text=text))
    return joined(parts)
