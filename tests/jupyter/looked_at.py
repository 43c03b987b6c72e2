"""A look alone on a page in a real browser, answered from what it says may be recorded."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

from playwright.sync_api import Browser, Page

from tests.browser.lab import settle
from tests.jupyter.quiet_page import quiet_page
from tests.jupyter.served import served
from workbench.ground.basics import markup
from workbench.jupyter.widgets.answers import Later
from workbench.jupyter.widgets.es_modules import styles
from workbench.jupyter.widgets.look import Look

_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>NAME</title>
<link rel="icon" href="data:,"><style>body{margin:0;background:#fff}body[data-jp-theme-light=false]{background:#111}
SHEET</style></head><body data-jp-theme-light="true"><main class="wb wb-lab" id="host"></main>
<script type="module">
import { CREATE } from "/js/NAME.js";
import { elementStates } from "/js/array_data.js";
const answers = await (await fetch("/answers.json")).json();
const ask = async (what, given = {}) => {
  heard.push([what, given]);
  const key = JSON.stringify([what, given]);
  const found = answers.find(([each]) => each === key);
  if (!found) throw new Error(`no answer to ${key}`);
  await window.held; // a promise where a test holds answers back
  const buffers = found[2].map((number) => fetch(`/${number}.bin`).then((each) => each.arrayBuffer()));
  return { answer: found[1], buffers: (await Promise.all(buffers)).map((each) => new DataView(each)) };
};
const life = new AbortController();
Object.assign(window, { heard: [], chosen: [], picked: [], pickedFrom: [], rows: {}, elementStates, life });
const given = { link: { ask, on: () => {}, say: () => {} }, signal: life.signal, spans: () => chosen,
                marked: (name) => rows[name] ?? [],
                pick: (row, name) => (picked.push(row), pickedFrom.push([row, name])) };
window.look = CREATE(document.getElementById("host"), given);
</script></body></html>"""


class Seen:
    """The page, and its module's face."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def js(self, text: str, *given: Any) -> Any:
        return self.page.evaluate(f"given => {{ const g = given; return {text}; }}", given)

    def settle(self) -> None:
        """Until what was asked of frames is drawn."""
        settle(self.page)

    def choose(self, *rows: int) -> None:
        """Spans are selected elsewhere."""
        self.page.evaluate("rows => { chosen = rows; look.selected(); }", rows)
        self.settle()


@contextlib.contextmanager
def looked_at(browser: Browser, look: Look, create: str, sheets: Sequence[str], ready: str) -> Iterator[Seen]:
    """The page of a look, until `ready` holds; at the end nothing may have gone wrong on it."""
    answers, files = list[Any](), dict[str, bytes]()
    for ask, given in look.recorded() or ():
        found = look.answer(ask, given)
        found = (found.make() if isinstance(found, Later) else found) or {}
        plain, buffers = found if isinstance(found, tuple) else (found, ())
        numbers = list(range(len(files), len(files) + len(buffers)))
        files |= {f"{number}.bin": bytes(each) for number, each in zip(numbers, buffers, strict=True)}
        answers.append((json.dumps([ask, given], separators=(",", ":")), plain, numbers))
    sheet = markup.SHEET.whole() + styles(("common.css", *sheets))
    text = _PAGE.replace("SHEET", sheet).replace("CREATE", create).replace("NAME", look.name)
    files |= {"index.html": text.encode(), "answers.json": json.dumps(answers).encode()}
    with served(files) as address, quiet_page(browser, height=900) as page:
        seen = Seen(page)
        page.goto(address)
        page.wait_for_function(ready)
        seen.settle()
        yield seen
