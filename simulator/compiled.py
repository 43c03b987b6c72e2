"""Compiles the event loop with Numba and keeps the machine code on disk, in a folder named by a hash of all sources.

Numba's own cache looks only at the file of the compiled function. A callee in another file could change
unseen, so the folder's name is a hash of all sources. A new folder makes room by dropping folders of other sources
(files/cache_folder.py); a damaged file counts as absent (files/machine_code_cache.py).
`ATEN_WORKBENCH_CACHE` moves the folders; `NUMBA_DISABLE_JIT=1` runs the same functions as plain Python.

Compiled code allocates nothing: it takes arrays that its caller keeps, and returns none. So it need not count
references to arrays; each count is an atomic instruction, and counting took more than half of the time of a simulation
in banked memory. A compiled function is inlined into its callers, since handing over an array means handing over seven
numbers or more; where a call is rare, `compiled_apart` saves the time to compile the function again for each caller.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba  # pyright: ignore[reportMissingTypeStubs]
from numba.core import event, types  # pyright: ignore[reportMissingTypeStubs]

from simulator.files.cache_folder import drop_unused, user_cache
from simulator.files.machine_code_cache import keep_on_disk

_PREFIX = "numba-"

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Returns `function` as machine code, compiled at the first call or read from the cache.

    The first call fixes the types of the arguments; the engine always passes the same types. The function may not make
    arrays, but may take views of its arguments.
    """
    return _compiled(function, inlined=True)


def compiled_apart(function: Callable[P, R]) -> Callable[P, R]:
    """`compiled`, but called instead of inlined: for long, rare code that each of its callers would compile anew."""
    return _compiled(function, inlined=False)


def _compiled(function: Callable[P, R], *, inlined: bool) -> Callable[P, R]:
    dispatcher = cast(Any, numba).njit(_nrt=False, forceinline=inlined)(function)
    if dispatcher is function:
        return function  # plain Python, with NUMBA_DISABLE_JIT
    folder = _writable_folder()
    if folder is not None:
        keep_on_disk(dispatcher, folder)
    return _for_types_alone(dispatcher)


def _for_types_alone(dispatcher: Any) -> Any:
    """Makes Numba compile a function once for whole numbers, not once more for each constant that a caller passes.

    While Numba infers the types of a caller, it compiles the called functions for the constants it has seen so far. It
    throws most of this code away when a constant turns out to be a variable: a fifth of the time of a first simulation.
    """
    given, plain = dispatcher.get_call_template, cast(Any, types).unliteral

    def get_call_template(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        return given(tuple(plain(each) for each in arguments), {name: plain(each) for name, each in keywords.items()})

    dispatcher.get_call_template = get_call_template
    return dispatcher


@contextmanager
def when_compiling(tell: Callable[[bool], None]) -> Generator[None, None, None]:
    """Within the block, calls `tell(True)` when compiling begins and `tell(False)` when it ends.

    Reading code from the cache does not count as compiling.
    """
    depth = 0  # compiling a function compiles the functions that it calls, nested

    def notice(happened: Any) -> None:
        nonlocal depth
        depth += 1 if happened.is_start else -1
        if depth == (1 if happened.is_start else 0):
            tell(happened.is_start)

    class Listener(cast(Any, event).Listener):  # pyright: ignore[reportUntypedBaseClass]
        on_start = on_end = staticmethod(notice)

    with cast(Any, event).install_listener("numba:compile", Listener()):
        yield


@cache
def cache_folder() -> Path:
    """The folder with the machine code of exactly the present sources of the simulator."""
    digest = hashlib.sha256()
    folder = Path(__file__).parent
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return user_cache() / f"{_PREFIX}{digest.hexdigest()[:16]}"


@cache
def _writable_folder() -> Path | None:
    folder = cache_folder()
    try:
        new = not folder.is_dir()
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)  # used now
        if new:
            drop_unused(folder, f"{_PREFIX}*")
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None
