"""Draws the pictures on the front page, `docs/images/`: the timeline of the README's own example, and, with a browser,
what a notebook shows of a whole model and of two journeys side by side."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import workbench as wb  # noqa: E402
from tests.browser import chromium  # noqa: E402
from workbench.models.resnet import resnet18  # noqa: E402
from workbench.models.seeded import with_statistics  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FOLDER = ROOT / "docs" / "images"
WIDE = 1040
"""Pixels: as wide as a page shows it."""


def ffn(x: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    return x + F.gelu(x @ up) @ down


def timeline() -> wb.Journey:
    torch.manual_seed(0)
    inputs = torch.randn(128, 768), torch.randn(768, 3072) / 28, torch.randn(3072, 768) / 55
    journey = wb.trace(ffn, *inputs, machine="tpu-v3")
    figure = journey.simulated.plot(style="light").get_figure(root=True)
    figure.savefig(FOLDER / "timeline.png", dpi=110, metadata={"Software": None})
    return journey


def model() -> wb.Journey:
    """ResNet-18 as its overview has it once it was checked and its first remedies were tried."""
    torch.manual_seed(0)
    image = torch.randn(1, 3, 224, 224)
    journey = wb.trace(with_statistics(resnet18()).eval(), image)
    _ = journey.simulated, journey.check(), journey.findings.tried()
    return journey


def shot(browser: Browser, html: str, name: str) -> None:
    page = browser.new_page(viewport={"width": WIDE, "height": 400}, device_scale_factor=1.5)
    page.set_content(f'<!doctype html><meta charset="utf-8"><body style="margin:14px">{html}')
    page.screenshot(path=FOLDER / f"{name}.png", full_page=True)
    page.close()


def main() -> None:
    example = timeline()
    if chromium.executable() is None:
        sys.stderr.write("no chromium is installed: the pictures of outputs are left as they are\n")
        return
    with chromium.running() as browser:
        shot(browser, model().html(), "overview")
        smaller = example.with_(mapping={"*": {"tile": {"m": 64}}})
        shot(browser, wb.compare(example, smaller, names=("as scheduled", "tiles of 64 rows")).html(), "comparison")


if __name__ == "__main__":
    main()
