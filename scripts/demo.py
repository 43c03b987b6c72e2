"""One journey in the terminal: a matrix product with bias and gelu, from PyTorch to a tile timeline, in five stages."""

from __future__ import annotations

import shutil
import sys

import torch
import torch.nn.functional as F

import workbench as wb


def model(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.gelu(a @ b + bias)


def show(title: str, text: str, *, most: int = 40) -> None:
    """A stage's text under its title; what goes beyond `most` lines is counted, long lines are cut."""
    columns = shutil.get_terminal_size().columns
    lines = [line if len(line) <= columns else f"{line[: columns - 1]}…" for line in text.splitlines()]
    rest = [f"... and {len(lines) - most} more lines"] if len(lines) > most else []
    sys.stdout.write("\n".join([f"\n=== {title} ", *lines[:most], *rest]) + "\n")


def main() -> None:
    width = min(shutil.get_terminal_size().columns, 140) - 14
    torch.manual_seed(0)
    journey = wb.trace(model, torch.randn(512, 256), torch.randn(256, 384), torch.randn(384), machine="tpu-v3")
    show("1 captured: the ATen calls PyTorch makes", journey.captured.text())
    show("2 lowered: every call decomposed, routed, and fused into kernels", journey.lowered.text())
    show("3 rendered: the kernel as MLIR on whole tensors", journey.rendered.text(), most=22)
    show("4 scheduled: the same kernel as loops over scratchpad tiles", journey.scheduled.text(), most=50)
    show("5 simulated: when every tile is moved and computed", journey.simulated.text(width=width))
    show("the numbers, run natively and compared with PyTorch", journey.check().text())
    tile = {"m": 256, "n": 384, "k": 256}
    other = journey.with_(mapping={"*": {"tile": tile}})
    before, after = journey.simulated.cycles, other.simulated.cycles
    show("what if?", f"tile {tile}: {after:,} cycles instead of {before:,}")


if __name__ == "__main__":
    main()
