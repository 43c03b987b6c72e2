"""Tests that a kernel with PyTorch loads between cells the modules that a first trace needs."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from jupyter_client.blocking.client import BlockingKernelClient

from tests.jupyter.test_cell_line import kernel, run
from workbench.ground.environment.turns import turn
from workbench.jupyter import loading_ahead
from workbench.jupyter.loading_ahead import MODULES, LoadingAhead


class Shell:
    """The shell of a kernel, as far as it is used here."""

    kernel = object()

    def __init__(self) -> None:
        self.handlers: dict[str, Any] = {}
        self.events = SimpleNamespace(register=self.handlers.__setitem__)

    def cell(self) -> None:
        self.handlers["pre_run_cell"](None)
        self.handlers["post_run_cell"](None)


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Modules are only noted, after a tenth of the time. PyTorch is loaded."""
    found = list[str]()
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(loading_ahead, "QUIET_SECONDS", 0.03)
    monkeypatch.setattr(loading_ahead, "import_module", found.append)
    return found


def test_modules_are_loaded_after_a_cell_and_never_again(quickly: list[str]) -> None:
    found, shell, made = quickly, Shell(), LoadingAhead(["a", "b"])

    async def session() -> None:
        shell.cell()
        assert found == []
        await asyncio.sleep(0.2)
        shell.cell()
        await asyncio.sleep(0.1)

    made.begin(shell)
    LoadingAhead(["c"]).begin(shell)  # the workbench is imported again
    asyncio.run(session())
    assert found == ["a", "b"] and not made.left


def test_cells_that_follow_each_other_do_not_wait(quickly: list[str]) -> None:
    found, shell = quickly, Shell()

    async def session() -> None:
        for _ in range(20):
            shell.cell()
            await asyncio.sleep(0.005)
        assert found == []

    LoadingAhead(["a"]).begin(shell)
    asyncio.run(session())


def test_without_pytorch_nothing_is_loaded(quickly: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    found, shell = quickly, Shell()
    monkeypatch.delitem(sys.modules, "torch")

    async def session() -> None:
        shell.cell()
        await asyncio.sleep(0.1)

    LoadingAhead(["a"]).begin(shell)
    asyncio.run(session())
    assert found == []


def test_while_another_thread_compiles_nothing_is_loaded(quickly: list[str]) -> None:
    found, shell, made = quickly, Shell(), LoadingAhead(["a"])
    has, done = threading.Event(), threading.Event()

    def compile_something() -> None:
        with turn():
            has.set()
            done.wait(10)

    async def session() -> None:
        shell.cell()
        await asyncio.sleep(0.1)

    made.begin(shell)
    other = threading.Thread(target=compile_something)
    other.start()
    has.wait(10)
    asyncio.run(session())
    done.set()
    other.join()
    assert found == [] and not made.left


def test_a_module_that_does_not_load_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(loading_ahead, "QUIET_SECONDS", 0.0)
    made, shell = LoadingAhead(["no_such_module", "json"]), Shell()

    async def session() -> None:
        shell.cell()
        await asyncio.sleep(0.1)

    made.begin(shell)
    asyncio.run(session())
    assert not made.left


@pytest.mark.test_all
def test_a_kernel_loads_all_of_it(tmp_path: Path) -> None:
    """All modules exist: a name that went from PyTorch would be noticed here."""
    with kernel(tmp_path) as client:
        run(client, "import torch\nimport workbench as wb")
        until = time.monotonic() + 120
        while printed(client, "get_ipython()._workbench_loads_ahead.left") != "[]" and time.monotonic() < until:
            time.sleep(2)  # a cell puts it off
        assert printed(client, f"[name for name in {MODULES!r} if name not in sys.modules]") == "[]"
        assert printed(client, "wb.trace(torch.relu, torch.ones(8)).check().ok") == "True"


def printed(client: BlockingKernelClient, expression: str) -> str:
    told = run(client, f"import sys\nprint({expression})")
    return "".join(message["content"]["text"] for message in told if message["msg_type"] == "stream").strip()
