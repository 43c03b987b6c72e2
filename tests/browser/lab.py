"""A real JupyterLab server and a real browser, for some tests, and nothing left of them afterwards.

`nbformat` is imported where it is used: that takes seconds, and many tests import this.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from playwright.sync_api import expect

from tests.browser import chromium, forked_kernels
from tests.browser.chromium import PATIENCE_SECONDS
from tests.browser.slow import slowed
from workbench.commands.lab_server import lab_environment

if TYPE_CHECKING:
    import nbformat
    from playwright.sync_api import BrowserContext, ConsoleMessage, Error, Page, ViewportSize

ROOT = Path(__file__).resolve().parents[2]
WINDOW: ViewportSize = {"width": 1400, "height": 1000}
"""Size of a new page."""

_BINDER = ROOT / ".venv-front" / "bin" / "python"
_TOKEN = "test"


def fronts() -> list[str]:
    """The JupyterLabs that there are: ours, and the one of `make binder-front` if it was made."""
    return ["ours", "binder"] if _BINDER.is_file() else ["ours"]


@dataclass(frozen=True)
class Server:
    """A running JupyterLab."""

    port: int

    def url(self, path: str) -> str:
        joined = "&" if "?" in path else "?"
        return f"http://127.0.0.1:{self.port}{path}{joined}token={_TOKEN}"


@contextlib.contextmanager
def server(
    folder: Path, scratch: Path, front: str = "ours", kernel: Sequence[str] = forked_kernels.PLAIN
) -> Iterator[Server]:
    """JupyterLab over `folder`, as `workbench lab` starts it, with settings, workspaces, runtime files and log in
    `scratch`. Kernels are of this Python whichever the front is: `kernel` is what starts one."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    python = str(_BINDER) if front == "binder" else sys.executable
    command = [
        *(python, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}"),
        *("--ServerApp.port_retries=0", f"--IdentityProvider.token={_TOKEN}", f"--ServerApp.root_dir={folder}"),
        *("--expose-app-in-browser", f"--LabApp.user_settings_dir={scratch / 'settings'}"),
        f"--LabApp.workspaces_dir={scratch / 'workspaces'}",
    ]
    own = {
        "JUPYTER_RUNTIME_DIR": str(scratch / "runtime"),
        "JUPYTER_CONFIG_DIR": str(scratch / "config"),
        "JUPYTER_PATH": str(_kernels(scratch / "data", kernel)),
    }
    env = {**lab_environment(), **own, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    with open(scratch / "server.log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=env, start_new_session=True)
    try:
        made = Server(port)
        _wait_for(made, process, scratch / "server.log")
        yield made
    finally:
        _stop(process)


def _kernels(data: Path, command: Sequence[str]) -> Path:
    spec = data / "kernels" / "python3" / "kernel.json"
    spec.parent.mkdir(parents=True)
    spec.write_text(json.dumps({"argv": list(command), "display_name": "Python 3", "language": "python"}))
    return data


def _wait_for(made: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            raise AssertionError(f"JupyterLab ended with {process.returncode}:\n{log.read_text(errors='replace')}")
        with contextlib.suppress(urllib.error.URLError, OSError), urllib.request.urlopen(made.url("/api/status")):
            return
        time.sleep(0.2)
    raise AssertionError(f"JupyterLab does not answer:\n{log.read_text(errors='replace')}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ends the server, which ends its kernels; whatever is left of its process group is killed."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(30)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def browser() -> Iterator[BrowserContext]:
    """A headless browser without pages."""
    with chromium.running() as made:
        yield made.new_context(viewport=WINDOW)


def patient(page: Page) -> Page:
    """The page, on which all that is waited for has as long as it may take; slow where the environment says so."""
    page.set_default_timeout(PATIENCE_SECONDS * 1000)
    expect.set_options(timeout=PATIENCE_SECONDS * 1000)
    slowed(page)
    return page


Read = TypeVar("Read")


def becomes(read: Callable[[], Read], wanted: Read) -> None:
    """Asserts that what is read is as wanted, now or later: for what playwright's `expect` cannot read."""
    until = time.monotonic() + PATIENCE_SECONDS
    while (found := read()) != wanted and time.monotonic() < until:
        time.sleep(0.05)
    assert found == wanted


def settle(page: Page) -> None:
    """Until what was asked of frames is drawn, and what that asked of the next ones."""
    frame = "new Promise(done => requestAnimationFrame(done))"
    page.evaluate(f"async () => {{ await {frame}; await {frame}; await {frame}; }}")


@contextlib.contextmanager
def page(context: BrowserContext) -> Iterator[Page]:
    """An empty page, and no kernel left of what was open in it."""
    opened = patient(context.new_page())
    try:
        yield opened
    finally:
        shut_down(opened)
        opened.close()


@dataclass(frozen=True)
class Opened:
    """A notebook that was run, and what the browser's console said of errors since."""

    page: Page
    errors: list[str]


@contextlib.contextmanager
def opened(context: BrowserContext, server: Server, path: Path, codes: Sequence[str]) -> Iterator[Opened]:
    """A notebook of these cells in the server's folder, run to its end in a new page."""
    write(path, codes)
    with page(context) as made, watched(made) as watching:
        show_what_ran(made, *run_all(made, server.url(f"/doc/tree/{path.name}?reset")))
        yield watching


def write(path: Path, codes: Sequence[str]) -> None:
    """A notebook of these cells."""
    import nbformat

    nbformat.write(notebook(*(nbformat.v4.new_code_cell(code) for code in codes)), path)


@contextlib.contextmanager
def watched(page: Page) -> Iterator[Opened]:
    """The page with what its console says of errors as long as this lasts."""
    errors = list[str]()

    def hear(message: ConsoleMessage) -> None:
        if message.type == "error":
            errors.append(message.text)

    def catch(error: Error) -> None:
        errors.append(str(error))

    page.on("console", hear)
    page.on("pageerror", catch)
    yield Opened(page, errors)
    page.remove_listener("console", hear)
    page.remove_listener("pageerror", catch)


def show_what_ran(page: Page, went_well: bool, cells: Sequence[dict[str, Any]]) -> None:
    """A notebook whose cells were run without an error."""
    assert went_well, [each for cell in cells for each in cell["outputs"] if each["output_type"] == "error"]
    show(page, dark=False, width=1280)


def notebook(*cells: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """A notebook that names its kernel: of one that does not JupyterLab asks which."""
    import nbformat

    return nbformat.v4.new_notebook(
        cells=list(cells), metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    )


RUN_ALL = """async () => {
    const panel = jupyterapp.shell.currentWidget;
    await panel.sessionContext.ready;
    await panel.sessionContext.session.kernel.info;
    return await jupyterapp.commands.execute('notebook:run-all-cells');
}"""

CELLS = """() => jupyterapp.shell.currentWidget.content.model.sharedModel.toJSON().cells
    .filter(cell => cell.cell_type === 'code')"""


def run_all(opened: Page, url: str) -> tuple[bool, list[dict[str, Any]]]:
    """Opens a notebook and runs every cell: whether all went well, and the code cells with their new outputs."""
    load(opened, url)
    return run_cells(opened)


def load(page: Page, url: str) -> None:
    """A notebook in a JupyterLab that is loaded for it."""
    page.goto(url)
    page.wait_for_function("() => globalThis.jupyterapp?.shell?.currentWidget?.context?.isReady")


def run_cells(opened: Page) -> tuple[bool, list[dict[str, Any]]]:
    """The same for the notebook that is open."""
    went_well = opened.evaluate(RUN_ALL)
    return went_well, opened.evaluate(CELLS)


_ASK = """async code => {
    const kernel = jupyterapp.shell.currentWidget.sessionContext.session.kernel;
    const asked = kernel.requestExecute({code, store_history: false});
    let said = '';
    asked.onIOPub = message => said += message.content.text ?? message.content.evalue ?? '';
    await asked.done;
    return said.trim();
}"""


def ask_python(opened: Page, code: str) -> str:
    """Runs code in the open notebook's kernel; returns its output or its error."""
    return opened.evaluate(_ASK, code)


def answered(opened: Page) -> None:
    """Until what widgets have asked Python is answered, and what they ask of that and of the next frames, and drawn."""
    for _ in range(2):
        settle(opened)
        ask_python(opened, "")
    settle(opened)


def wait_for_python(opened: Page, code: str, expected: str) -> None:
    """Until Python answers so: what is pressed reaches it when the kernel is free."""
    becomes(lambda: ask_python(opened, code), expected)


def shut_down(opened: Page) -> None:
    """Ends the kernel of the open notebook, which otherwise lives as long as the server."""
    opened.evaluate("async () => globalThis.jupyterapp?.shell.currentWidget?.sessionContext.shutdown()")


_THEME = """async theme => {
    await jupyterapp.commands.execute('apputils:change-theme', {theme});
    const light = String(theme.includes('Light'));
    while (document.body.dataset.jpThemeLight !== light) await new Promise(done => setTimeout(done, 50));
}"""


def in_theme(opened: Page, *, dark: bool) -> None:
    opened.evaluate(_THEME, "JupyterLab Dark" if dark else "JupyterLab Light")


_HEIGHT = """() => {
    const cells = [...document.querySelectorAll('.jp-Notebook .jp-Cell')].map(each => each.getBoundingClientRect());
    const shown = cells.filter(each => each.height); // those far from sight are not laid out
    const tops = shown.map(each => each.top), bottoms = shown.map(each => each.bottom);
    const high = shown.length ? Math.max(...bottoms) - Math.min(...tops) : 0; // for a moment none may be laid out
    return Math.ceil(high + 240 + 500 * (cells.length - shown.length));
}"""


def show(opened: Page, *, dark: bool, width: int) -> None:
    """The open notebook in a theme and a width, in a window so high that all of it is laid out at once."""
    in_theme(opened, dark=dark)
    laid_out(opened)
    height = 0
    for _ in range(6):  # what was not laid out before may be higher than it was taken for
        needed = min(_TALLEST, opened.evaluate(_HEIGHT))
        if height == needed:
            return
        height = needed
        opened.set_viewport_size({"width": width, "height": height})
        opened.wait_for_function("width => innerWidth === width", arg=width)
        opened.evaluate("() => document.querySelector('.jp-NotebookPanel .jp-WindowedPanel-outer').scrollTo(0, 0)")
        laid_out(opened)
    raise AssertionError(f"the notebook takes another height each time it is looked at, now {height}")


def laid_out(opened: Page) -> None:
    """Until all stays in its place for a while: nothing tells when JupyterLab has laid cells out anew."""
    opened.evaluate(_LAID_OUT.replace("BOXES", _BOXES))


_TALLEST = 16_000
"""Pixels that Chromium draws into one picture at most."""
_BOXES = ".jp-Notebook .jp-Cell, .jp-Notebook .wb, .jp-Notebook .wb > *, .jp-Notebook .wb details"
"""Whatever is laid out anew changes the height of one of these; all elements of a notebook are tens of thousands."""
_LAID_OUT = """async () => {
    const places = () => JSON.stringify([...document.querySelectorAll('BOXES')]
        .map(each => [each.offsetTop, each.offsetWidth, each.offsetHeight]));
    let before = '', same = 0;
    while (same < 7) { // for a tenth of a second several times over: to look in each frame costs more than to draw it
        await new Promise(done => setTimeout(done, 50));
        await new Promise(done => requestAnimationFrame(done));
        const now = places();
        same = now === before ? same + 1 : 0;
        before = now;
    }
}"""
