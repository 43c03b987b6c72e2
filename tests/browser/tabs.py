"""Pages with JupyterLab in them that show one notebook after the other: a page takes four seconds to load it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, Page

from tests.browser import lab

_OPEN = """async path => {
    if (!globalThis.jupyterapp?.shell) return false; // nothing is loaded yet
    const panel = await jupyterapp.commands.execute('docmanager:open', {path});
    await panel.context.ready;
    while (jupyterapp.shell.currentWidget !== panel) await new Promise(done => setTimeout(done, 10));
    return true;
}"""

_CLOSE = """async () => {
    if (!globalThis.jupyterapp?.shell) return false;
    for (const each of [...jupyterapp.shell.widgets('main')]) {
        await each.sessionContext?.ready; // a kernel that has just begun is not ended yet
        await each.sessionContext?.shutdown();
        each.dispose();
    }
    return !document.querySelector('.jp-Dialog, .jp-Notebook');
}"""


def open_notebook(page: Page, server: lab.Server, name: str) -> None:
    """Opens a notebook of the server's folder in a page in which none is open."""
    if not page.evaluate(_OPEN, name):
        lab.load(page, server.url(f"/doc/tree/{name}?reset"))


def run_all(page: Page, server: lab.Server, name: str) -> tuple[bool, list[dict[str, Any]]]:
    """The same, and runs every cell: whether all went well, and the code cells with their new outputs."""
    open_notebook(page, server, name)
    return lab.run_cells(page)


class Tabs:
    """The pages of one server."""

    def __init__(self, browser: BrowserContext, server: lab.Server) -> None:
        self._browser, self._server = browser, server
        self._free: list[Page] = []
        self._taken: list[Page] = []

    @contextlib.contextmanager
    def page(self) -> Iterator[Page]:
        """A page in which nothing is open, and no kernel left of what was open in it."""
        taken = self._free.pop() if self._free else lab.patient(self._browser.new_page())
        self._taken.append(taken)
        taken.bring_to_front()  # what lies below another page is drawn once a second
        try:
            yield taken
        finally:
            self._taken.remove(taken)
            if taken.evaluate(_CLOSE):
                taken.set_viewport_size(lab.WINDOW)
                lab.in_theme(taken, dark=False)
                self._free.append(taken)
            else:
                taken.close()
            if self._taken:
                self._taken[-1].bring_to_front()

    @contextlib.contextmanager
    def opened(self, path: Path, codes: Sequence[str]) -> Iterator[lab.Opened]:
        """A notebook of these cells in the server's folder, run to its end."""
        lab.write(path, codes)
        with self.page() as page, lab.watched(page) as made:
            lab.show_what_ran(page, *run_all(page, self._server, path.name))
            yield made
