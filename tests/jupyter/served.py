"""A page of its own with the lab's modules as they are, in a real browser without a notebook around it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping

from tests.jupyter.http_server import Handler, answering
from workbench.explaining.views.timelines.columns import Columns
from workbench.ground.basics import markup
from workbench.jupyter.widgets.es_modules import JS, styles

_KINDS = {"js": "text/javascript", "css": "text/css", "html": "text/html; charset=utf-8", "json": "application/json"}

_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>timeline</title>
<link rel="icon" href="data:,">
<style>body{margin:0}SHEET</style></head><body data-jp-theme-light="true"><main class="wb wb-lab" id="host"></main>
<script type="module">
import { createTimeline } from "/js/timeline.js";
import { createTimelines } from "/js/timeline_pair.js";
const block = async (name) => {
  const [header, data] = await Promise.all([fetch(`/${name}.json`), fetch(`/${name}.bin`)]);
  return { header: await header.json(), data: new DataView(await data.arrayBuffer()) };
};
Object.assign(window, { block, createTimeline, createTimelines, host: document.getElementById("host"), heard: [] });
window.callbacks = {
  select: (rows, how) => heard.push(["select", [...rows], how]),
  cursor: (cycle) => heard.push(["cursor", cycle]),
  area: (begin, end, units) => heard.push(["area", begin, end, units]),
  gap: async (unit, cycle) => (heard.push(["gap", unit, cycle]), { findings: [] }),
  more: (what) => block(what),
};
window.loaded = true;
</script></body></html>"""


def page_files(blocks: Mapping[str, Columns]) -> dict[str, bytes]:
    """Files of a page: blocks of columns under their names, and the page itself."""
    sheet = markup.SHEET.whole() + styles(("common.css", "timeline.css"))
    files = {"index.html": _PAGE.replace("SHEET", sheet).encode()}
    for name, block in blocks.items():
        files[f"{name}.json"] = json.dumps(block.header).encode()
        files[f"{name}.bin"] = bytes(block.data)
    return files


@contextlib.contextmanager
def served(files: Mapping[str, bytes]) -> Iterator[str]:
    """The address of a server of these files and of the lab's modules."""

    class Files(Handler):
        def get(self) -> None:
            name = self.path.lstrip("/") or "index.html"
            module = JS / name.removeprefix("js/")
            body = files.get(name) if not name.startswith("js/") else module.read_bytes() if module.is_file() else None
            kind = _KINDS.get(name.rpartition(".")[2], "application/octet-stream")
            self.answer(404 if body is None else 200, kind, body or b"")

    with answering(Files) as address:
        yield address
