"""Findings that need an attempt: importing the libraries, and running one tiny kernel through all stages.

Each attempt runs in a process of its own, so that a crash or an endless wait ends the attempt and not the doctor.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from workbench.commands.doctor.diagnosis import Finding, ok, problem, warning
from workbench.ground.environment.blas_library import PACKAGE as BLAS_PACKAGE
from workbench.ground.environment.blas_library import SWITCH as BLAS_SWITCH
from workbench.ground.environment.processor import NATIVE
from workbench.ground.environment.processor import SWITCH as PROCESSOR_SWITCH

CORE: Mapping[str, str] = {
    "numpy": "numpy",
    "numba": "numba",
    "pandas": "pandas",
    "jinja2": "jinja2",
    "torch": "torch",
    "torch_mlir": "torch_mlir.ir, torch_mlir.fx, torch_mlir.execution_engine, torch_mlir.dialects.linalg",
}
"""The libraries that a journey needs: name -> modules to import."""

LAB: Mapping[str, str] = {
    "jupyterlab": "jupyterlab",
    "ipywidgets": "ipywidgets",
    "anywidget": "anywidget",
    "matplotlib": "matplotlib.figure",
}
"""The libraries that notebooks and pictures need."""

_SECONDS = 300

_TRIAL = """
import sys
import torch, workbench as wb
from workbench.ground.errors import WorkbenchError
from workbench.operators.tensors.element_types import DTYPES
kinds = [name for name in DTYPES if name not in ("c64", "c128")]
wrong, failed = {}, {}
for name in kinds:
    print("trying", name, file=sys.stderr, flush=True)
    x, y = (each.to(DTYPES[name]) for each in (torch.arange(6) / 2, torch.ones(6)))
    try:
        j = wb.trace(lambda x, y: torch.maximum(x * y + y, y), x, y)
        check = j.check()
    except WorkbenchError as error:
        failed.setdefault(str(error), []).append(name)
        continue
    if not check.ok:
        wrong[check.text()] = [name]
if failed or wrong:
    print("; ".join(f"in {', '.join(types)}: {said}" for said, types in (failed or wrong).items()))
else:
    print(f"{', '.join(kinds)}; {j.simulated.cycles} cycles on {j.machine.name}, the numbers agree with PyTorch")
raise SystemExit(4 if failed else 3 if wrong else 0)
"""
"""Runs one kernel for each element type: a processor may lack the instructions for a type. Exit status 3: the numbers
differ; 4: an error."""

_KERNEL = """
from jupyter_client.kernelspec import KernelSpecManager
print(KernelSpecManager().get_kernel_spec("python3").argv[0])
"""


_PRODUCTS = """
from workbench.ground.environment.blas_library import blas
from workbench.ground.environment.processor import processor
from workbench.ground.errors import BadOption
try:
    found = blas(processor())
except BadOption as error:
    raise SystemExit(str(error))
print(f"calls of {found}, its routines for {found.routines}" if found else "")
"""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The result of a child process."""

    code: int | None
    """The process's exit code, negative for a signal; None if the process did not end in time."""
    out: str
    err: str

    def said(self) -> str:
        """The reason of the failure, in a few words."""
        if self.code is None:
            return "does not end"
        if self.code < 0:
            return f"ends the process with {_signal(-self.code)}"
        lines = (self.err.strip() or self.out.strip()).splitlines()
        return lines[-1] if lines else f"ends with exit code {self.code}"


def attempt(code: str, *, seconds: float = _SECONDS, env: Mapping[str, str] | None = None) -> Attempt:
    """Runs Python code in a child process that sees the installation, but not the current folder (`-P`)."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", code],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
            env={**os.environ, "PYTHONUTF8": "1", **(env or {})},
        )
    except subprocess.TimeoutExpired:
        return Attempt(None, "", "")
    return Attempt(done.returncode, done.stdout, done.stderr)


def imports(
    core: Mapping[str, str] = CORE, lab: Mapping[str, str] = LAB, *, seconds: float = _SECONDS
) -> Iterable[Finding]:
    """Imports every library in a child process of its own, two at a time."""
    both = {**core, **lab}

    def tried(modules: str) -> Attempt:
        return attempt(f"import {modules}", seconds=seconds)

    with ThreadPoolExecutor(2) as pool:
        attempts = dict(zip(both, pool.map(tried, both.values()), strict=True))
    failed = {name: each for name, each in attempts.items() if each.code != 0}
    good = [name for name in both if name not in failed]
    if good:
        yield ok("imports", ", ".join(good))
    for name, each in failed.items():
        what = f"importing {name} {each.said()}" if (each.code or -1) < 0 else f"importing {name} fails: {each.said()}"
        if name in core:
            yield problem(name, what, f"reinstall it: pip install --force-reinstall --no-deps {name.replace('_', '-')}")
        else:
            yield warning(name, f"{what}. Notebooks and pictures need it", "pip install 'aten-workbench[lab]'")


def products() -> Iterable[Finding]:
    """Reports if native kernels have a BLAS for their f32 products."""
    tried = attempt(_PRODUCTS)
    said = tried.out.strip()
    if tried.code == 0 and said:
        yield ok("products", f"in f32 are {said}")
    elif tried.code == 0 and os.environ.get(BLAS_SWITCH) == "off":
        yield warning("products", f"are loops, since {BLAS_SWITCH}=off", f"unset {BLAS_SWITCH}")
    elif tried.code == 0 and os.environ.get(PROCESSOR_SWITCH, NATIVE) != NATIVE:
        yield ok("products", f"are loops, since kernels are restricted by {PROCESSOR_SWITCH}")
    elif tried.code == 0:
        yield warning(
            "products",
            f"are loops, which take two to four times as long: {BLAS_PACKAGE} is missing, or has no library that this "
            "system can load",
            f"pip install --force-reinstall --no-deps {BLAS_PACKAGE}",
        )
    else:
        yield problem(
            "products",
            f"looking for a BLAS fails: {tried.said()}",
            f"pip install --force-reinstall --no-deps {BLAS_PACKAGE}, or set {BLAS_SWITCH}=off",
        )


def notebook_kernel() -> Iterable[Finding]:
    """Reports if notebooks run in this Python: another one may have installed a kernel of the same name."""
    tried = attempt(_KERNEL)
    if tried.code != 0:
        return  # another finding reports a missing or broken Jupyter
    runs = tried.out.strip()
    if runs in ("python", "python3") or os.path.realpath(runs) == os.path.realpath(sys.executable):
        yield ok("notebooks", "run in this Python")
    else:
        yield warning(
            "notebooks",
            f"the kernel 'python3' runs {runs}, but this is {sys.executable}",
            "python -m ipykernel install --sys-prefix, or jupyter kernelspec remove python3",
        )


def trial(*, skipped: bool = False, seconds: float = _SECONDS) -> Iterable[Finding]:
    """Takes a tiny kernel of each element type from PyTorch to machine code. The kernel is always compiled: no cache is
    read."""
    if skipped:
        yield warning("trial run", "not tried: the packages it needs are broken", "mend the problems above first")
        return
    tried = attempt(_TRIAL, seconds=seconds, env={"ATEN_WORKBENCH_KERNEL_CACHE": "off"})
    if tried.code == 0:
        yield ok("trial run", tried.out.strip().splitlines()[-1])
        return
    if tried.code in (3, 4):
        said = f"{'gives other numbers than PyTorch: ' if tried.code == 3 else ''}{tried.out.strip()}"
    else:
        said = tried.said() + _when(tried)
    yield problem(
        "trial run",
        f"tracing, compiling and running a tiny kernel fails: {said}",
        "if every other line is ok, this is a fault of the workbench: report it with the output of workbench "
        "doctor --json",
    )


def _when(tried: Attempt) -> str:
    """The element type of a trial run when it crashed or was stopped."""
    kinds = [line.split()[1] for line in tried.err.splitlines() if line.startswith("trying ")]
    return f", in {kinds[-1]}" if kinds and (tried.code or -1) < 0 else ""


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
