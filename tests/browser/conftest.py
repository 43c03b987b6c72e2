"""A JupyterLab and a browser for all tests of this folder: each takes seconds to start, and keeps nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser import lab

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notebooks")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A file is run with every JupyterLab that there is, unless it says `FRONTS`."""
    if "server" in metafunc.fixturenames:
        fronts = getattr(metafunc.module, "FRONTS", lab.fronts())
        metafunc.parametrize("server", fronts, indirect=True, scope="package")


@pytest.fixture(scope="package")
def server(
    request: pytest.FixtureRequest, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[lab.Server]:
    with lab.server(folder, tmp_path_factory.mktemp("lab"), request.param) as made:
        yield made


@pytest.fixture(scope="package")
def browser() -> Iterator[BrowserContext]:
    executable = lab.chromium()
    assert executable is not None, "there is no chromium here: apt-get install chromium"
    with lab.browser(executable) as made:
        yield made


@pytest.fixture
def page(browser: BrowserContext) -> Iterator[Page]:
    with lab.page(browser) as made:
        yield made
