"""The progress line below a notebook's cell: seen by front ends that show cells, and never an output that stays."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

SLOW = """
import time
import workbench.ground.environment.progress as progress
progress._REDRAW_SECONDS = 0.1
with progress.waiting("schedule", delay=0.0):
    for _ in progress.counted(range(4)):
        {inside}
        time.sleep(0.12)
"""
"""As any stage looks that takes longer than the delay, in a fifth of the time."""


@contextlib.contextmanager
def kernel(cache: Path) -> Iterator[BlockingKernelClient]:
    """The client of a new kernel, in which this workbench can be imported."""
    env = {**os.environ, "ATEN_WORKBENCH_CACHE": str(cache)}
    env["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).resolve().parents[2]), env.get("PYTHONPATH", "")])
    manager, made = start_new_kernel(env=env)
    try:
        yield made
    finally:
        made.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingKernelClient]:
    with kernel(tmp_path_factory.mktemp("cache")) as made:
        run(made, "import workbench")
        yield made


def run(client: BlockingKernelClient, code: str, *, in_a_cell: bool = True) -> list[dict[str, Any]]:
    """Runs code as a front end that shows cells does, or another; returns the kernel's messages."""
    message = client.session.msg("execute_request", {"code": code, "silent": False, "store_history": True})
    if in_a_cell:
        message["metadata"] = {"cellId": "a-cell", "trusted": True}
    client.shell_channel.send(message)
    told: list[dict[str, Any]] = []
    while True:
        got = client.get_iopub_msg(timeout=120)
        if got["parent_header"].get("msg_id") != message["header"]["msg_id"]:
            continue
        if got["msg_type"] == "status" and got["content"]["execution_state"] == "idle":
            client.get_shell_msg(timeout=120)
            return told
        told.append(got)


def left(told: list[dict[str, Any]]) -> list[str]:
    """The texts that a notebook's front end shows in the end: what it has, less what it was told to clear."""
    shown, clear_first = list[str](), False
    for message in told:
        content = message["content"]
        if message["msg_type"] == "clear_output":
            shown, clear_first = (shown, True) if content["wait"] else ([], clear_first)
        elif message["msg_type"] in ("stream", "display_data", "execute_result", "error"):
            shown, clear_first = ([] if clear_first else shown), False
            shown.append(content.get("text") or content.get("data", {}).get("text/plain") or content["ename"])
    return shown


def lines(told: list[dict[str, Any]]) -> list[str]:
    """The progress lines that were shown for a while."""
    found = [each["content"]["data"]["text/plain"] for each in told if each["msg_type"] == "display_data"]
    return [text for text in found if text.startswith("schedule")]


@pytest.mark.test_all
def test_a_slow_stage_shows_a_line_and_leaves_nothing(client: BlockingKernelClient) -> None:
    told = run(client, SLOW.format(inside="pass"))
    assert len(lines(told)) > 1 and "/4" in lines(told)[-1]
    assert left(told) == []
    assert left(run(client, f"{SLOW.format(inside='pass')}\n'the result'")) == ["'the result'"]
    assert left(run(client, f"{SLOW.format(inside='pass') * 2}")) == []
    assert left(run(client, f"{SLOW.format(inside='pass')}\n1 / 0")) == ["ZeroDivisionError"]


@pytest.mark.test_all
@pytest.mark.parametrize("said", ["print('mine', flush=True)", "display('mine')", "print('mine')"])
def test_what_the_user_says_before_or_meanwhile_stays(client: BlockingKernelClient, said: str) -> None:
    for code in (f"{said}\n{SLOW.format(inside='pass')}", SLOW.format(inside=f"_ or {said}")):
        assert "".join(left(run(client, code))).strip().strip("'") == "mine"
    several = left(run(client, SLOW.format(inside=said)))
    assert "".join(several).count("mine") == 4, "not one of them is taken away with the line"


def test_who_shows_no_cells_is_sent_nothing(client: BlockingKernelClient) -> None:
    told = run(client, SLOW.format(inside="pass"), in_a_cell=False)
    assert [each["msg_type"] for each in told] == ["status", "execute_input"]
