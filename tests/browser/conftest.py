"""A JupyterLab, a browser and what kernels are forked from, for all tests of this folder: each takes seconds to start,
and keeps nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser import forked_kernels, lab
from tests.browser.tabs import Tabs

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
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sequence[str]]:
    with forked_kernels.forking(tmp_path_factory.mktemp("kernels") / "log") as command:
        yield command


@pytest.fixture(scope="package")
def server(
    request: pytest.FixtureRequest, folder: Path, kernel: Sequence[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[lab.Server]:
    with lab.server(folder, tmp_path_factory.mktemp("lab"), request.param, kernel) as made:
        yield made


@pytest.fixture(scope="package")
def browser() -> Iterator[BrowserContext]:
    with lab.browser() as made:
        yield made


@pytest.fixture(scope="package")
def tabs(browser: BrowserContext, server: lab.Server) -> Tabs:
    return Tabs(browser, server)


@pytest.fixture
def page(tabs: Tabs) -> Iterator[Page]:
    with tabs.page() as made:
        yield made
