"""Draws `docs/images/walk.gif` for the front page: the lab in JupyterLab, pressed and dragged and typed into.

    python scripts/make_walk.py

The pointer is drawn into the page, and every picture is one of the page as it is.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.browser import chromium, lab  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

OUT = ROOT / "docs" / "images" / "walk.gif"
SIZE = (1100, 760)
MOST_BYTES = 2_000_000
COLOURS = 160

CODES = (
    "import torch, torch.nn.functional as F, workbench as wb\n"
    "def ffn(x, up, down):\n    return x + F.gelu(x @ up) @ down\n"
    "torch.manual_seed(0)\n"
    "inputs = torch.randn(128, 768), torch.randn(768, 3072) / 28, torch.randn(3072, 768) / 55\n"
    "j = wb.trace(ffn, *inputs, machine='tpu-v3')\n"
    "j.simulated.cycles",
    "w = j.widget()\nw",
)

_POINTER = """() => {
    const pointer = document.createElement('div');
    pointer.id = 'pointer';
    pointer.innerHTML = '<svg width="22" height="26" viewBox="0 0 22 26"><path d="M2 2v18l5-4 3 8 4-2-3-7h7z" '
        + 'fill="#111" stroke="#fff" stroke-width="1.5"/></svg>';
    pointer.style = 'position:fixed;z-index:99999;pointer-events:none;left:-40px;top:-40px';
    document.body.append(pointer);
    document.addEventListener('mousemove', event => {
        pointer.style.left = event.clientX + 'px';
        pointer.style.top = event.clientY + 'px';
    }, true);
}"""


class Film:
    """Pictures of the page, and how long each is shown."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.pictures: list[Image.Image] = []
        self.milliseconds: list[int] = []

    def take(self, milliseconds: int) -> None:
        whole = Image.open(io.BytesIO(self.page.screenshot())).convert("RGB")
        self.pictures.append(whole)
        self.milliseconds.append(milliseconds)

    def press(self, target: Locator, *, wait: int = 500, shown: int = 1400) -> None:
        """Goes there, presses, and shows what came of it."""
        target.hover()
        self.take(500)
        target.click()
        self.page.wait_for_timeout(wait)
        self.take(shown)

    def save(self, path: Path) -> None:
        every = Image.new("RGB", (SIZE[0], SIZE[1] * len(self.pictures)))
        for place, picture in enumerate(self.pictures):
            every.paste(picture, (0, SIZE[1] * place))
        palette = every.quantize(COLOURS)  # one for all, or colours would change from picture to picture
        frames = [each.quantize(COLOURS, palette=palette, dither=Image.Dither.NONE) for each in self.pictures]
        frames[0].save(path, save_all=True, append_images=frames[1:], duration=self.milliseconds, loop=0, optimize=True)


def walk(film: Film) -> None:
    page = film.page
    lab_of = page.locator(".wb-lab").first
    scroll_to(lab_of, page)
    film.take(1500)
    film.press(lab_of.locator(".list.of-calls .row:not(.plain)").nth(1))
    film.press(lab_of.locator(".list.of-spans .row:not(.plain)").nth(6))
    bars = lab_of.locator(".tl-plot canvas[role='img']").first
    scroll_to(bars, page, above=250)
    film.take(700)
    box = bars.bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + box["height"] * 0.8)
    page.keyboard.down("Control")
    for _ in range(4):
        page.mouse.wheel(0, -120)
        page.wait_for_timeout(120)
        film.take(220)
    page.keyboard.up("Control")
    page.mouse.click(box["x"] + box["width"] * 0.3, box["y"] + box["height"] * 0.8)
    page.wait_for_timeout(600)
    film.take(1800)
    look(film, lab_of, "Scratchpad and tiles")
    play = lab_of.locator(".of-memory .mem-steps button").nth(1)
    play.click()
    for _ in range(5):
        page.wait_for_timeout(500)
        film.take(450)
    look(film, lab_of, "Array")
    film.take(900)
    look(film, lab_of, "Knobs")
    slider = lab_of.locator(".of-knobs input[type='range']").first
    slider.focus()
    film.take(600)
    for key in ("ArrowLeft", "ArrowLeft"):
        page.keyboard.press(key)
        page.wait_for_timeout(1500)
        film.take(1500)


def scroll_to(target: Locator, page: Page, above: int = 10) -> None:
    target.evaluate("each => each.scrollIntoView({block: 'start'})")
    page.evaluate(
        "above => document.querySelector('.jp-NotebookPanel .jp-WindowedPanel-outer').scrollBy(0, -above)", above
    )
    page.wait_for_timeout(500)


def look(film: Film, lab_of: Locator, title: str) -> None:
    button = lab_of.locator(f".looks button:text-is('{title}')")
    scroll_to(button, film.page, above=60)
    film.press(button, wait=1500)


def main() -> None:
    if chromium.executable() is None:
        raise SystemExit(chromium.MISSING)
    with (
        tempfile.TemporaryDirectory() as scratch,
        tempfile.TemporaryDirectory() as folder,
        lab.server(Path(folder), Path(scratch)) as server,
        lab.browser() as browser,
        lab.opened(browser, server, Path(folder) / "walk.ipynb", CODES) as opened,
    ):
        opened.page.set_viewport_size({"width": SIZE[0], "height": SIZE[1]})
        opened.page.evaluate(_POINTER)
        film = Film(opened.page)
        walk(film)
        film.save(OUT)
    size = OUT.stat().st_size
    print(f"{OUT.relative_to(ROOT)}: {len(film.pictures)} pictures, {size:,} bytes")
    if size > MOST_BYTES:
        raise SystemExit(f"{size:,} bytes are more than {MOST_BYTES:,}")


if __name__ == "__main__":
    main()
