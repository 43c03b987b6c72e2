"""A widget in a real browser with its own Python behind it, and no notebook around: messages go over HTTP.

The page stands where JupyterLab stands: it gives the widget's module a model that sends, hears, and has state.
"""

from __future__ import annotations

import base64
import contextlib
import json
import queue
import threading
from collections.abc import Iterator
from typing import Any

from playwright.sync_api import Browser, Page

from tests.jupyter.http_server import Handler, answering
from tests.jupyter.quiet_page import quiet_page
from workbench.jupyter.widgets.widget_base import LabWidget

_POLL_SECONDS = 10.0
_PLAIN = (str, int, float, bool, list, dict, type(None))

_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>widget</title>
<link rel="icon" href="data:,"><style>body{margin:0;padding:8px}</style>
<link rel="stylesheet" href="/widget.css"></head><body data-jp-theme-light="true"><main id="host"></main>
<script type="module">
import made from "/widget.js";
const heard = new Map(), state = await (await fetch("/state")).json();
const tell = (name, ...given) => [...heard.get(name) ?? []].forEach(each => each(...given));
const view = text => new DataView(Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer);
window.sent = 0;
let posted = Promise.resolve();  // one after the other, as a notebook's messages go
const post = (path, given) => {
  const body = JSON.stringify(given);
  posted = posted.then(() => fetch(path, {method: "POST", body}));
};
const model = {
  get: name => state[name],
  set(name, value) { state[name] = value; },
  save_changes() { post("/save", state); },
  on(name, act) { heard.set(name, (heard.get(name) ?? new Set()).add(act)); },
  off(name, act) { heard.get(name)?.delete(act); },
  send(content, _, buffers) { window.sent++; post("/send", content); },
};
window.model = model;
window.die = () => tell("comm_live_update");  // as the notebook says that the kernel is gone
window.end = await made.render({model, el: document.getElementById("host")});
window.loaded = true;
while (true) {
  const found = await (await fetch("/hear")).json();
  for (const each of found) {
    if (each.state) { Object.assign(state, each.state); for (const name in each.state) tell(`change:${name}`); }
    else tell("msg:custom", each.content, each.buffers.map(view));
  }
}
</script></body></html>"""


@contextlib.contextmanager
def live(widget: LabWidget) -> Iterator[str]:
    """The address of a page with the widget; what the widget sends goes there as long as the block lasts."""
    out: queue.Queue[dict[str, Any]] = queue.Queue()
    over = threading.Event()
    names = [name for name in widget.keys if not name.startswith("_") and isinstance(getattr(widget, name), _PLAIN)]

    def send(content: dict[str, Any], buffers: Any = None) -> None:
        coded = [base64.b64encode(bytes(each)).decode() for each in buffers or []]
        out.put({"content": content, "buffers": coded})

    widget.send = send  # type: ignore[method-assign]
    widget.observe(lambda change: out.put({"state": {change["name"]: change["new"]}}), names)

    def waited() -> list[dict[str, Any]]:
        try:
            found = [out.get(timeout=_POLL_SECONDS)]
        except queue.Empty:
            return []
        while not out.empty():
            found.append(out.get())
        return found

    asked = threading.Lock()  # a kernel handles one message after the other

    class Asked(Handler):
        def get(self) -> None:
            answers = {
                "/": lambda: ("text/html; charset=utf-8", _PAGE),
                "/widget.js": lambda: ("text/javascript", widget._esm),
                "/widget.css": lambda: ("text/css", widget._css),
                "/state": lambda: ("application/json", json.dumps({name: getattr(widget, name) for name in names})),
                "/hear": lambda: ("application/json", json.dumps([] if over.is_set() else waited())),
            }
            found = answers.get(self.path)
            if found is None:
                self.answer(404, "text/plain", b"")
            else:
                kind, text = found()
                self.answer(200, kind, str(text).encode())

        def post(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with asked:
                if self.path == "/send":
                    widget._handle_custom_msg(body, [])
                else:
                    widget.set_state({name: body[name] for name in names if name in body})
            self.answer(200, "application/json", b"{}")

    with answering(Asked) as address:
        try:
            yield address
        finally:
            over.set()
            out.put({"state": {}})


@contextlib.contextmanager
def widget_page(browser: Browser, widget: LabWidget, ready: str = "#host *", **size: int) -> Iterator[Page]:
    """A page with the widget, as soon as an element `ready` is there; both are closed at the end."""
    with live(widget) as address, quiet_page(browser, **size) as page:
        page.goto(address)
        page.wait_for_selector(ready, state="attached")
        yield page
    widget.close()
