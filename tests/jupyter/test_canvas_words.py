"""Words that are drawn on canvases lie on nothing that is to be read: caught as they are drawn, in numbers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import TypedDict

import pytest
import torch
from playwright.sync_api import Browser, Page

import workbench as wb
from tests.browser.lab import settle
from tests.jupyter.quiet_page import quiet_page

_CATCH = """
const caught = new Map();  // of a canvas: the words that stand on it
const put = CanvasRenderingContext2D.prototype.fillText, wipe = CanvasRenderingContext2D.prototype.clearRect;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y, most) {
    const { width, fontBoundingBoxAscent: up, fontBoundingBoxDescent: down } = this.measureText(text);
    const wide = Math.min(width, most ?? width);
    const left = x - { left: 0, right: wide, center: wide / 2 }[this.textAlign];
    const words = caught.get(this.canvas) ?? new Map();
    words.set([text, x, y].join(), { text, left, right: left + wide, top: y - up, bottom: y + down });
    caught.set(this.canvas, words);
    put.apply(this, [text, x, y, ...(most === undefined ? [] : [most])]);
};
CanvasRenderingContext2D.prototype.clearRect = function (x, y, width, height) {
    if (height > 40 && x === 0) caught.delete(this.canvas);
    wipe.call(this, x, y, width, height);
};
globalThis.wordsOn = selector => [...document.querySelectorAll(selector)]
    .map(canvas => [...(caught.get(canvas) ?? new Map()).values()]);
"""


class Word(TypedDict):
    text: str
    left: float
    right: float
    top: float
    bottom: float


def meet(one: Word, other: Word) -> bool:
    across = min(one["right"], other["right"]) - max(one["left"], other["left"])
    down = min(one["bottom"], other["bottom"]) - max(one["top"], other["top"])
    return across > 0.5 and down > 0.5


def overlaps(words: list[Word]) -> list[tuple[str, str]]:
    return [(one["text"], other["text"]) for one, other in combinations(words, 2) if meet(one, other)]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A matmul and a softmax: loads that wait with room, idle time with its cause in words between them."""
    j = wb.trace(lambda a, b: torch.softmax(a @ b, 1), torch.randn(512, 512), torch.randn(512, 1024), machine="tpu-v3")
    j.selection.select(j.scheduled.kernels[0].name)
    path = tmp_path_factory.mktemp("page") / "lab.html"
    j.to_html(path, interactive=True)
    return path


PIXELS = ("Canvas2D: Multiple readback operations using getImageData",)
"""The browser says so, as the test itself reads pixels."""


@pytest.fixture(params=[800, 1280])
def page(request: pytest.FixtureRequest, chromium_browser: Browser, written: Path) -> Iterator[Page]:
    with quiet_page(chromium_browser, width=request.param, ignored=PIXELS) as made:
        made.add_init_script(_CATCH)
        made.goto(written.as_uri())
        made.wait_for_selector(".wb-timeline canvas")
        yield made


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
def test_the_room_of_an_arrow_lies_on_no_word_and_on_no_selected_span(page: Page):
    named = 0
    for row in (1, 2, 3, 6, 9, 14, 20):
        page.locator(".list.of-spans").focus()
        page.locator(".list.of-spans").evaluate("(list, row) => list.scrollTo(0, 20 * row - 20)", row)
        page.locator(f".list.of-spans .row[data-row='{row}']").click()
        page.locator(f".tl-title b:has-text('span {row}:')").wait_for()
        page.locator(".tl-told dt:text-is('waits for'), .tl-told dt:text-is('waited for by')").first.wait_for()
        settle(page)
        every = page.evaluate("wordsOn('.tl-plot canvas')")
        rooms = [word for words in every for word in words if word["text"].startswith("+")]
        named += len(rooms)
        others = [word for words in every for word in words if not word["text"].startswith("+")]
        assert overlaps(rooms) == []
        assert [(one["text"], other["text"]) for one in rooms for other in others if meet(one, other)] == []
    assert named, "some arrow says its room"


_INKED = """([canvas, words]) => {
    const scale = canvas.width / canvas.getBoundingClientRect().width;
    const context = canvas.getContext("2d");
    const inked = ({ left, right, top, bottom }) => {
        const box = [left + 1, top + 2, right - left - 2, bottom - top - 4].map(each => Math.round(each * scale));
        return context.getImageData(...box).data.some((value, place) => place % 4 === 3 && value > 0);
    };
    return words.filter(inked).map(({ text }) => text);
}"""


@pytest.mark.test_all
def test_an_arrow_goes_behind_words(page: Page):
    page.locator(".list.of-spans .row[data-row='14']").click()
    page.locator(".tl-title b:has-text('span 14:')").wait_for()
    settle(page)
    written, over = page.locator(".tl-plot canvas").all()[-2:]
    (words, *_) = [each for each in page.evaluate("wordsOn('.tl-plot canvas')") if len(each) > 5]
    causes = [word for word in words if word["text"] in ("data", "memory peak", "write after read")]
    assert len(causes) > 5 and written.is_visible()
    assert page.evaluate(_INKED, [over.element_handle(), causes]) == []


@pytest.mark.test_all(but=1)
def test_the_names_of_iterations_stand_apart(page: Page):
    page.locator(".looks button:text-is('Pipeline')").click()
    page.locator(".of-pipeline canvas").wait_for()
    settle(page)
    (words,) = page.evaluate("wordsOn('.of-pipeline canvas')")
    assert len(words) > 10
    assert overlaps(words) == []
