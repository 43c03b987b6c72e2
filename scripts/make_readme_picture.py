"""Draws the picture on the front page, `docs/images/timeline.png`, from the README's own example."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F

import workbench as wb
from workbench.jupyter.plot_timeline import timeline_figure
from workbench.views.timeline import gantt_of

PATH = Path(__file__).resolve().parent.parent / "docs" / "images" / "timeline.png"


def ffn(x: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    return x + F.gelu(x @ up) @ down


def main() -> None:
    torch.manual_seed(0)
    inputs = torch.randn(128, 768), torch.randn(768, 3072) / 28, torch.randn(3072, 768) / 55
    journey = wb.trace(ffn, *inputs, machine="tpu-v3")
    figure = timeline_figure(gantt_of(journey.simulated.trace), width=11)
    figure.savefig(PATH, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
