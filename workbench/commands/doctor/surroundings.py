"""The surroundings of the workbench: processor, memory, disk, terminal, environment and the folder of its caches."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from simulator.errors import BadSetting
from simulator.files.cache_folder import FOLDER, LIMIT, bytes_in, limit_bytes, user_cache
from workbench.commands.doctor.diagnosis import Finding, ok, problem, warning
from workbench.ground.environment.disk_store import is_off
from workbench.ground.environment.processor import SWITCH, can_link
from workbench.ground.environment.processor import processor as processor_now
from workbench.ground.errors import BadOption
from workbench.ground.faults.fences import fence

_LEAST_MEMORY, _LEAST_DISK, _LITTLE_DISK = 2 << 30, 100 << 20, 2 << 30
_SHOWN_IN_TEXTS = "µ·→─│█é"


def processor() -> Iterable[Finding]:
    """Reports the processor and its vector instructions."""
    what = f"{platform.machine()} with {os.cpu_count()} cores on {platform.system()}"
    if level := os.environ.get(SWITCH, ""):
        try:
            processor_now()
        except BadOption as error:
            yield problem("processor", f"{what}; {error}", f"unset {SWITCH}, or set it to one of these")
            return
        what += f"; kernels are restricted to {SWITCH}={level}"
    flags = _flags()
    if flags and "avx2" not in flags:
        yield warning(
            "processor",
            f"{what}, without AVX2",
            "native runs and checks are slow here, simulated cycles are the same; an emulator may hide the feature",
        )
    else:
        yield ok("processor", what + (", AVX2" if flags else "") + (", AVX-512" if "avx512f" in flags else ""))


def _flags() -> frozenset[str]:
    """The processor's features by name, where Linux lists them (x86)."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return frozenset()
    line = next((line for line in text.splitlines() if line.startswith("flags")), "")
    return frozenset(line.partition(":")[2].split())


def protection() -> Iterable[Finding]:
    """Reports how far this system protects the notebook from faults of native code, and if it keeps machine code."""
    if is_off("ATEN_WORKBENCH_WORKER"):
        yield warning(
            "protection",
            "kernels that are not known to be safe run in this process without a trial: a fault in one ends it",
            "unset ATEN_WORKBENCH_WORKER",
        )
        return
    held = fence()
    seen = (
        f"a read past a tensor is detected ({held[0]})"
        if held
        else "a read past a tensor is not detected on this system"
    )
    kept = "kept on disk" if can_link() else "compiled anew in each process here"
    forks = "a forked child has its own" if hasattr(os, "register_at_fork") else "this system does not fork"
    yield ok(
        "protection",
        f"kernels not known to be safe are tried in a worker process first ({forks}), on watched memory; {seen}; "
        f"machine code is {kept}",
    )


def memory() -> Iterable[Finding]:
    """Reports if a model fits beside PyTorch and MLIR, which take about one gigabyte."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # this system does not report it
        return
    if total < _LEAST_MEMORY:
        yield warning(
            "memory", _size(total), "PyTorch and MLIR take about 1 GB: small models only, one notebook at a time"
        )
    else:
        yield ok("memory", _size(total))


def encoding() -> Iterable[Finding]:
    """Reports if texts can be printed: they have characters beyond ASCII, like the micro sign."""
    name = sys.stdout.encoding or "ascii"
    try:
        _SHOWN_IN_TEXTS.encode(name)
    except UnicodeEncodeError:
        yield warning(
            "terminal",
            f"the output is {name}, which lacks some characters of texts and timelines, like the micro sign: "
            "printing them fails",
            "set PYTHONUTF8=1, or a locale like C.UTF-8",
        )
    else:
        yield ok("terminal", f"prints {name}")


def switches() -> Iterable[Finding]:
    """Reports environment variables that make the workbench slower."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        yield warning("NUMBA_DISABLE_JIT", "the simulator runs as plain Python, far slower", "unset NUMBA_DISABLE_JIT")
    if is_off("ATEN_WORKBENCH_KERNEL_CACHE"):
        yield warning(
            "ATEN_WORKBENCH_KERNEL_CACHE",
            "kernels are not kept on disk, so each process compiles them anew",
            "unset ATEN_WORKBENCH_KERNEL_CACHE",
        )


def cache() -> Iterable[Finding]:
    """Reports the folder of kernels and of the compiled simulator: if it can be written, its size, and the free
    space."""
    try:
        folder = user_cache()
    except BadSetting as error:
        yield problem("cache", str(error), f"unset {FOLDER}, or set it to a whole path")
        return
    try:
        for part in (folder, *_parts(folder)):
            part.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=part):
                pass
    except OSError as error:
        yield warning(
            "cache",
            f"{folder} cannot be written ({error.strerror or error}): kernels and the simulator are compiled in each "
            "process",
            "make it writable, or set ATEN_WORKBENCH_CACHE to another folder",
        )
        return
    try:
        limit = _size(limit_bytes())
    except BadSetting as error:
        yield problem("cache", str(error), f"unset {LIMIT}, or set it to a number")
        return
    free, sizes = shutil.disk_usage(folder).free, _sizes(folder)
    parts = ", ".join(f"{name} {_size(size)}" for name, size in sizes.items())
    said = f"{folder}: {_size(sum(sizes.values()))}{f' ({parts}; each may have {limit})' if parts else ''}"
    said += f", {_size(free)} free on its disk"
    todo = (
        f"make room, set ATEN_WORKBENCH_CACHE to another folder, or set {LIMIT} to fewer megabytes; you can "
        "remove the folder's contents at any time"
    )
    if free < _LEAST_DISK:
        yield problem("cache", said, todo)
    elif free < _LITTLE_DISK:
        yield warning("cache", said, todo)
    else:
        yield ok("cache", said)


def _parts(folder: Path) -> list[Path]:
    """The folders within the cache. Each may belong to somebody else, after a run with other rights."""
    return [part for part in folder.iterdir() if part.is_dir()] if folder.is_dir() else []


def _sizes(folder: Path) -> dict[str, int]:
    """The bytes of each part, by its name in words; the simulator has a folder for each state of its sources."""
    called = {"kernels": "kernels", "native": "machine code", "verdicts": "verdicts"}
    found: dict[str, int] = {}
    for part in _parts(folder):
        name = "compiled simulators" if part.name.startswith("numba-") else called.get(part.name, part.name)
        found[name] = found.get(name, 0) + bytes_in(part)
    return found


def _size(count: int) -> str:
    return f"{count / (1 << 30):.1f} GB" if count >= 1 << 30 else f"{count / (1 << 20):.0f} MB"
