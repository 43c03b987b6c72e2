"""A worker without PyTorch, which starts in a fraction of a second and does, when told to, all that can go wrong."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from typing import BinaryIO

from workbench.ground.faults.messages import Message
from workbench.ground.faults.serving import Say, serve
from workbench.ground.faults.worker_process import WorkerProcess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BOOT = f"""
import sys
sys.path.insert(0, {ROOT!r})
from workbench.ground.faults.messages import taken
ends = taken()
from tests.faults.pretender import main
main(*ends)
"""


def pretender() -> WorkerProcess:
    """A worker process whose jobs are those below."""
    return WorkerProcess([sys.executable, "-c", BOOT])


def main(requests: BinaryIO, answers: BinaryIO) -> None:
    serve({"good": _good, "crash": _crash, "overrun": _overrun}, requests, answers)


def _good(job: Message, say: Say) -> str:
    body = job.body
    if "bytes" in body:
        assert [len(block) for block in job.blocks] == body["bytes"]
    sys.stderr.write("x" * body.get("flood", 0))
    sys.stderr.flush()
    if "sleep" in body:
        say("sleep")
        time.sleep(body["sleep"])
    if "read" in body:
        raise ValueError(f"stdin has {sys.stdin.read()!r}")
    return ""


def _crash(job: Message, say: Say) -> str:
    sys.stderr.write("LLVM ERROR: something is wrong\n")
    sys.stderr.flush()
    say("compile")
    if job.body.get("exit") is not None:
        os._exit(job.body["exit"])
    ctypes.string_at(0)
    raise AssertionError("address 0 can be read")


def _overrun(job: Message, say: Say) -> str:
    return "writes 4 bytes past argument y"
