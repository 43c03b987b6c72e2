"""Kernels that are forked from one process that has imported all there is and traced once, which takes five seconds.

Each is a process of its own, with the environment and the folder that JupyterLab gave it. JupyterLab starts this file
in the place of a kernel: it asks for a fork, hands signals on to it and ends with it; and the fork ends with this one.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

PLAIN = (sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}")
"""Command that starts a kernel where there is no fork."""

_HOOKS = "from workbench.jupyter import ipython_session; ipython_session.begin()"
"""The part of `import workbench` that is for a session: here it was imported before there was one."""


@contextlib.contextmanager
def forking(log: Path) -> Iterator[Sequence[str]]:
    """Yields a command that starts kernels inside this context: a fork on Linux, where any library may be forked."""
    if sys.platform != "linux":
        yield PLAIN
        return
    env = {**os.environ, "OMP_NUM_THREADS": "1"}  # a fork has none of the threads that PyTorch has begun
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as asked, open(log, "wb") as said:
        address = os.path.join(folder, "asked")  # of few letters, as such an address has to be
        asked.bind(address)
        asked.listen()
        forks = [sys.executable, "-m", "tests.browser.forked_kernels", str(asked.fileno())]
        process = subprocess.Popen(
            forks, stdin=subprocess.PIPE, stdout=said, stderr=said, env=env, pass_fds=[asked.fileno()]
        )
        asked.close()  # so that nobody waits for it when it has failed
        try:
            yield sys.executable, "-IS", __file__, address, "{connection_file}"
        finally:
            process.communicate()  # the end of what it reads is its own


def main(arguments: Sequence[str]) -> None:
    match arguments:
        case [asked]:
            fork_for_all(socket.socket(fileno=int(asked)))
        case _:
            stand_for_a_kernel(*arguments)


def stand_for_a_kernel(address: str, connection_file: str) -> None:
    """Runs as the process that JupyterLab takes for the kernel, and passes its signals on to the fork."""
    fork = socket.socket(socket.AF_UNIX)
    fork.connect(address)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: fork.sendall(bytes([number])))
    fork.sendall(json.dumps([connection_file, os.getcwd(), dict(os.environ)]).encode() + b"\n")
    fork.recv(1)  # which says nothing here, and once it is gone never will


def fork_for_all(asked: socket.socket) -> None:
    """Forks for whoever asks, until there is nothing more to read."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who ends the tests has ended what it reads
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for forks
    _traced_once()
    while sys.stdin not in select.select([asked, sys.stdin], [], [])[0]:
        stands_for, _ = asked.accept()
        if not os.fork():
            asked.close()
            _be_a_kernel(stands_for)
        stands_for.close()


def _traced_once() -> None:
    """Loads and begins what a kernel takes time for, in one thread: a fork has no other."""
    os.environ["ATEN_WORKBENCH_WORKER"] = "off"  # no process or thread of this one's goes on in its forks
    for name in ("anywidget", "ipykernel.zmqshell"):
        importlib.import_module(name)
    torch, workbench = importlib.import_module("torch"), importlib.import_module("workbench")
    torch.hub.tqdm.monitor_interval = 0  # or the bar that PyTorch never shows begins a thread, where there is tqdm
    _ = workbench.trace(torch.tanh, torch.ones(5)).simulated.cycles
    assert threading.active_count() == 1
    gc.collect()
    gc.freeze()


def _be_a_kernel(stands_for: socket.socket) -> NoReturn:
    """In the fork: what `python -m ipykernel_launcher` does, in the place of the process that stands for it."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    connection_file, folder, environment = json.loads(stands_for.makefile().readline())
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    threading.Thread(target=_obey, args=[stands_for], daemon=True).start()
    sys.argv = ["ipykernel_launcher", "-f", connection_file, f"--IPKernelApp.exec_lines={_HOOKS}"]
    importlib.import_module("ipykernel.kernelapp").launch_new_instance()
    sys.exit()


def _obey(stands_for: socket.socket) -> None:
    """Takes the signals that come for the kernel, and ends with the process that they came to."""
    while number := stands_for.recv(1):
        os.kill(os.getpid(), number[0])
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
