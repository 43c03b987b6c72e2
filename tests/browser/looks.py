"""Finds outputs that look wrong, by measuring the page as a reader sees it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
from axe_playwright_python.sync_playwright import Axe
from PIL import Image

if TYPE_CHECKING:
    from playwright.sync_api import Page

SCREEN = 900
"""Pixels that a first screen is high."""
_INK = 0.002
"""Part of a screen that is ink where anything stands on it at all: a line of text of twenty letters is three times as
much. White space is 0."""

STDERR = '.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.stderr"]'
OUTPUTS = ".jp-OutputArea-output"

_IN_SIGHT = """
    const inSight = (root, kind) => {  // elements or texts below a root, without what stands in closed parts
        const closed = each => each.parentElement?.tagName === 'DETAILS' && !each.parentElement.open &&
            each.tagName !== 'SUMMARY' || each.tagName === 'STYLE';
        const walk = document.createTreeWalker(root, kind | NodeFilter.SHOW_ELEMENT, {acceptNode: each =>
            each.nodeType === Node.ELEMENT_NODE && closed(each) ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT});
        const found = [];
        while (walk.nextNode()) if (kind === NodeFilter.SHOW_ELEMENT || walk.currentNode.nodeType === Node.TEXT_NODE) {
            found.push(walk.currentNode);
        }
        return found;
    };
"""

_OUT_OF_BOXES = """() => {
    IN_SIGHT
    const wrong = [];
    for (const box of document.querySelectorAll('.jp-OutputArea-output .wb')) {
        const scrolls = each => ['auto', 'scroll'].includes(getComputedStyle(each).overflowX);
        const edge = box.getBoundingClientRect().right + 1;
        for (const each of inSight(box, NodeFilter.SHOW_ELEMENT)) {
            if (each instanceof SVGElement && each.tagName !== 'svg') continue;
            const style = getComputedStyle(each), own = each.getBoundingClientRect();
            if (!own.width) continue;
            const cut = ['hidden', 'clip'].includes(style.overflowX) && each.scrollWidth > each.clientWidth + 1;
            let holder = each.parentElement;
            while (holder !== box && !scrolls(holder)) holder = holder.parentElement;
            const out = own.right > edge && holder === box;
            if (cut || out) wrong.push(`${cut ? 'cut' : 'out of its box'}: ${each.tagName} ${each.className} ` +
                each.textContent.slice(0, 60));
        }
    }
    for (const output of document.querySelectorAll('.jp-OutputArea-output')) {
        const overflow = getComputedStyle(output).overflowX;
        if (output.scrollWidth > output.clientWidth + 1 && !['auto', 'scroll'].includes(overflow)) {
            wrong.push(`cut: ${output.className} ${output.textContent.slice(0, 60)}`);
        }
    }
    return wrong;
}"""

_PICTURES = """() => [...document.querySelectorAll('.jp-OutputArea-output svg, .jp-OutputArea-output img')]
    .filter(each => each.getBoundingClientRect().width > 200)
    .map(each => each.tagName === 'img' ? each.src : each.outerHTML.replace(/(id="|#)[\\w-]+/g, ''))"""

_ALIKE = 30
"""Texts of the same kind, colour and surroundings that are looked at: a table has thousands."""

_CONTRAST = """() => {
    IN_SIGHT
    const canvas = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
    const parsed = text => {
        canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = '#000'; canvas.fillStyle = text;
        canvas.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
        return [r, g, b, a / 255];
    };
    const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
    const light = colour => {
        const part = i => { const c = colour[i] / 255; return c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4 };
        return .2126 * part(0) + .7152 * part(1) + .0722 * part(2);
    };
    const painted = (each, text) => {  // what an element puts below a text: nothing if it is transparent
        const style = getComputedStyle(each);
        const shape = each instanceof SVGElement && !['svg', 'g', 'text', 'tspan', 'title'].includes(each.tagName);
        const said = shape ? style.fill : each instanceof SVGElement ? 'transparent' : style.backgroundColor;
        if (said === 'none') return [0, 0, 0, 0];
        const colour = parsed(said);
        let opacity = shape ? +style.fillOpacity : 1;
        for (let up = each; up && !up.contains(text); up = up.parentElement) opacity *= +getComputedStyle(up).opacity;
        return [...colour.slice(0, 3), colour[3] * opacity];
    };
    const wrong = new Map(), seen = new Map(), outputs = [...document.querySelectorAll('.jp-OutputArea-output')];
    for (const node of outputs.flatMap(each => inSight(each, NodeFilter.SHOW_TEXT))) {
        const text = node.parentElement;
        if (!node.data.trim() || text.tagName === 'title') continue;
        const kind = [text.tagName, text.getAttribute('class'), text.parentElement.className,
            getComputedStyle(text).color, getComputedStyle(text).fill].join();
        seen.set(kind, (seen.get(kind) ?? 0) + 1);
        if (seen.get(kind) > ALIKE) continue;
        const range = document.createRange();
        range.selectNodeContents(node);
        const box = [...range.getClientRects()].find(each => each.width > 1 && each.height > 1);
        if (!box) continue;
        const stack = document.elementsFromPoint(box.left + Math.min(3, box.width / 2), box.top + box.height / 2);
        const at = stack.indexOf(text);
        if (at < 0) continue;  // scrolled out of sight, or below something
        let ground = [255, 255, 255, 1];
        for (const each of stack.slice(at).reverse()) ground = over(painted(each, text), ground);
        const style = getComputedStyle(text);
        let ink = parsed(text instanceof SVGElement ? style.fill : style.color), opacity = 1;
        for (let up = text; up; up = up.parentElement) opacity *= +getComputedStyle(up).opacity;
        ink = over([...ink.slice(0, 3), ink[3] * opacity], ground);
        const [low, high] = [light(ink), light(ground)].sort((a, b) => a - b), size = parseFloat(style.fontSize);
        const large = size >= 24 || size >= 18.66 && style.fontWeight >= 700;
        const ratio = (high + .05) / (low + .05);
        if (ratio < (large ? 3 : 4.5)) {
            const name = `${text.tagName}.${text.getAttribute('class') || ''} in ${text.parentElement.className}`;
            wrong.set(`${name}: ${ratio.toFixed(2)}, e.g. ${node.data.trim().slice(0, 30)}`, 1);
        }
    }
    return [...wrong.keys()];
}"""


def out_of_boxes(page: Page) -> list[str]:
    """Elements of ours that are wider than their box and stand in nothing that scrolls, and all that is cut off."""
    return page.evaluate(_OUT_OF_BOXES.replace("IN_SIGHT", _IN_SIGHT))


def pictures(page: Page) -> list[str]:
    """Every larger picture that is shown, as text."""
    return page.evaluate(_PICTURES)


def low_contrast(page: Page) -> list[str]:
    """Texts that WCAG 2 (AA) calls hard to read on what lies below them: less than 4.5 to 1, or 3 to 1 if large."""
    return page.evaluate(_CONTRAST.replace("ALIKE", str(_ALIKE)).replace("IN_SIGHT", _IN_SIGHT))


THEMES_AND_WIDTHS = ((False, 800), (False, 1280), (True, 1280), (True, 800))
"""Dark or not, and how wide: from each to the next only one of both changes."""


def some_looks(number: int) -> tuple[tuple[bool, int], ...]:
    """Two of these that have both themes and both widths; a view's next number has the other two."""
    return THEMES_AND_WIDTHS[number % 2 :: 2]


_TAKE_OUT = """() => {
    const closed = [...document.querySelectorAll('.wb details:not([open])')]
        .filter(each => !each.parentElement.closest('details:not([open])'));
    const hidden = each => [...each.childNodes].filter(child => child.tagName !== 'SUMMARY');
    globalThis.takenOut = closed.map(each => [each, hidden(each)]);
    for (const child of globalThis.takenOut.flatMap(([, parts]) => parts)) child.remove();
}"""
_PUT_BACK = """() => {
    for (const [each, parts] of globalThis.takenOut) each.append(...parts);
    delete globalThis.takenOut;
}"""


_SEEN_BEFORE = """() => {
    const shown = [...document.querySelectorAll('.jp-OutputArea-output .wb')].flatMap(box =>
        [box.outerHTML.replace(/rgba?\\([^)]*\\)/g, ''), ...[box, ...box.querySelectorAll('*')].map(each => {
            const {x, y, width, height} = each.getBoundingClientRect();
            return [x, y, width, height];
        })]).join();
    const before = document.querySelector('.jp-Notebook').seenByAxe ??= new Set();
    return before.has(shown) || !before.add(shown);
}"""
_OF_COLOURS = ["color-contrast", "link-in-text-block"]


def against_axe(page: Page) -> list[str]:
    """Lists axe's findings in the outputs; `low_contrast` looks at texts on pictures, which axe leaves out.

    What stands in closed parts nobody sees, and axe says nothing of it. It is most of a page, and takes axe ten times
    as long as what is seen: meanwhile it is not there. All but two of its rules go by elements, their attributes and
    places: where these are as axe has seen them before, in another theme, it looks at colours alone.
    """
    options: dict[str, Any] = {"resultTypes": ["violations"], "rules": {"target-size": {"enabled": True}}}
    page.evaluate(_TAKE_OUT)
    try:
        if page.evaluate(_SEEN_BEFORE):
            options = {"resultTypes": ["violations"], "runOnly": {"type": "rule", "values": _OF_COLOURS}}
        found = Axe().run(page, context=f"{OUTPUTS} .wb", options=options)
    finally:
        page.evaluate(_PUT_BACK)
    return [
        f"{rule['id']}: {node['html'][:100]}" for rule in found.response["violations"] for node in rule["nodes"][:3]
    ]


def too_high(page: Page) -> list[str]:
    """Outputs of more than two screens, as they are before anything in them is opened."""
    heights = page.locator(OUTPUTS).evaluate_all("each => each.map(one => [one.clientHeight, one.textContent])")
    return [f"{height} pixels: {text[:80]}" for height, text in heights if height > 2 * SCREEN]


_HIGH = """(outputs, least) => [...outputs.keys()]
    .filter(number => outputs[number].getBoundingClientRect().height >= least)"""


def ink(pixels: Any) -> float:
    """The part of a picture that differs from the colour that most of it has."""
    red, green, blue = np.moveaxis(pixels.astype(np.int32), 2, 0)
    colours, counts = np.unique(red << 16 | green << 8 | blue, return_counts=True)
    parts = np.stack([colours >> 16, colours >> 8 & 255, colours & 255])
    apart = abs(parts - parts[:, [counts.argmax()]]).sum(axis=0)
    return float(counts[apart > 60].sum() / counts.sum())


def blank(page: Page, picture: bytes) -> list[str]:
    """Outputs that are a screen high or higher, and on whose first screen there is next to nothing.

    `picture` is one of the page as it is.
    """
    found: list[str] = []
    outputs, seen = page.locator(OUTPUTS), _pixels(picture)
    for number in outputs.evaluate_all(_HIGH, SCREEN):
        output = outputs.nth(number)
        box = output.bounding_box()
        assert box is not None
        if box["y"] + SCREEN > len(seen):  # of a notebook that is higher than any window
            output.evaluate("output => output.scrollIntoView()")
            seen, box = _pixels(page.screenshot()), output.bounding_box()
            assert box is not None
        left, top = int(box["x"]), max(0, int(box["y"]))
        if ink(seen[top : top + SCREEN, left : left + int(box["width"])]) < _INK:
            found.append((output.text_content() or "")[:80])
    return found


def _pixels(picture: bytes) -> Any:
    return np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"))
