"""A Python that lacks what only POSIX systems have: run in a process of its own, before anything else is imported.

    python -c "import tests.elsewhere.lacking; ..."

Python and the libraries below us are made anew for each system, and look for what the one they were made for has. So
they are imported first, and find what they look for; what comes afterwards, all of the workbench, does not.
"""

from __future__ import annotations

import builtins
import ctypes
import importlib
import importlib.abc
import os
import platform
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

BELOW = ("torch", "torch._dynamo", "torch.export", "torch_mlir.fx", "numba", "pandas", "jinja2", "llvmlite.binding")
MODULES = frozenset({"fcntl", "resource", "termios", "pwd", "grp", "tty", "pty", "readline"})
SIGNALS = ("SIGALRM", "setitimer", "alarm", "pthread_kill", "pthread_sigmask", "SIGHUP", "SIGUSR1")
OF_OS = (
    *("fork", "forkpty", "register_at_fork", "killpg", "setsid", "getpgid", "geteuid", "getuid", "sysconf", "execv"),
    *("mkfifo", "sched_getaffinity", "fchmod", "symlink"),
)


class _NoModules(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> None:
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _without_proc(given: Any) -> Any:
    def call(path: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(path, str | os.PathLike) and os.fspath(path).startswith("/proc"):
            raise FileNotFoundError(2, "No such file or directory", path)
        return given(path, *args, **kwargs)

    return call


def _no_pass_fds(init: Any) -> Any:
    def start(self: Any, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("pass_fds") or kwargs.get("preexec_fn"):
            raise ValueError("pass_fds and preexec_fn are not supported on this platform")
        init(self, *args, **kwargs)

    return start


class _NoFunctions(ctypes.CDLL):
    """The functions of the C library cannot be looked up by name through the process itself."""

    def __init__(self, name: str | None, *args: Any, **kwargs: Any) -> None:
        if name is None:
            raise TypeError("bad argument type for built-in operation")
        super().__init__(name, *args, **kwargs)


def take_away() -> None:
    for name in MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, _NoModules())
    assert "workbench" not in sys.modules, "all of it shall be imported without them"
    for name in SIGNALS:
        delattr(signal, name)
    for name in OF_OS:
        delattr(os, name)
    delattr(select, "poll")
    platform.machine = lambda: "arm64"
    builtins.open = _without_proc(builtins.open)
    os.open = _without_proc(os.open)
    subprocess.Popen.__init__ = _no_pass_fds(subprocess.Popen.__init__)  # type: ignore[method-assign]
    ctypes.CDLL = _NoFunctions  # type: ignore[misc]


for below in BELOW:
    importlib.import_module(below)
take_away()
