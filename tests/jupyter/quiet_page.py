"""Pages of a real browser on which nothing may go wrong."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from playwright.sync_api import Browser, Page

from tests.browser.lab import patient


@contextlib.contextmanager
def quiet_page(
    browser: Browser, *, width: int = 1280, height: int = 1000, ignored: tuple[str, ...] = (), **options: Any
) -> Iterator[Page]:
    """A new page, closed at the end; then its console has to be empty but for `ignored` beginnings, and no script may
    have failed."""
    page = patient(browser.new_page(viewport={"width": width, "height": height}, **options))
    wrong = list[str]()
    page.on("console", lambda message: None if message.text.startswith(ignored) else wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    yield page
    assert wrong == [], wrong
    page.close()
