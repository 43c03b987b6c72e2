"""Starts Chromium: the one that is installed on this machine, since none is ever downloaded.

Everything that needs a browser starts it here (`scripts/check_house.py` looks for other ways). A test asks for one of
`FIXTURES`; where there is no Chromium it is skipped before anything is made for it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserType

FIXTURES = ("browser", "chromium_browser")
"""The fixtures that start a browser."""
MISSING = "there is no chromium here: apt-get install chromium"
PATIENCE_SECONDS = 240
"""Time limit of a wait in a browser: far more than it takes, since a busy machine is no failure."""

_FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run", "--disable-sync")


def executable() -> str | None:
    """The path of the installed browser; None where there is none."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    return None


def skips() -> bool:
    """True if tests in a browser are skipped here. Where the environment says that one is needed, they fail instead."""
    return executable() is None and not os.environ.get("ATEN_WORKBENCH_NEEDS_CHROMIUM")


def launched(kind: BrowserType, *, scrollbars: bool = False) -> Browser:
    """A new browser without a window. The caller closes it."""
    path = executable()
    assert path is not None, MISSING
    hidden = ["--hide-scrollbars"] if scrollbars else []
    return kind.launch(
        executable_path=path, args=list(_FLAGS), ignore_default_args=hidden, timeout=PATIENCE_SECONDS * 1000
    )


@contextlib.contextmanager
def running() -> Iterator[Browser]:
    """A browser without a window, closed at the end of the block."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = launched(driver.chromium)
        try:
            yield browser
        finally:
            browser.close()
