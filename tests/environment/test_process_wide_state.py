"""Tests that docs/design/process-wide-state.md lists all code that changes state shared by the threads of a process."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "design" / "process-wide-state.md"

CALLS = re.compile(
    r"patch|object|manual_seed|set_rng_state|fork_rng|set_state|setstate|seed|set_stance|set_num_threads|set_default_\w+"
    r"|use_deterministic_algorithms|_set_\w+|set_\w+_enabled|set_fastpath_enabled|sdpa_kernel|catch_warnings"
    r"|filterwarnings|simplefilter|_filters_mutated|addFilter|setLevel|addHandler|settrace|setprofile"
    r"|setrecursionlimit|setswitchinterval|redirect_std(out|err)|chdir|putenv|umask|dup2|nice|alarm|setitimer"
    r"|pthread_sigmask|setrlimit|freeze|set_threshold|dump_traceback_later|cancel_dump_traceback_later"
    r"|register_(module|optimizer_step)_\w+|requires_grad_|set_|py_impl|register_at_fork|setattr|delattr"
)
"""Names of what changes something that others may see; calls on what nobody else has are in the table as well."""
OF = {
    "object": r"(.*\.)?patch", "signal": "signal", "enable": "gc|faulthandler", "disable": "gc", "insert": r"sys\.path",
    "register": "faulthandler", "fork": "os",
}  # fmt: skip
"""Names that mean so only of these."""
_ATTRIBUTES = "data|grad|__code__|cell_contents|_stance|training|disabled|_current_level"
ASSIGNED = re.compile(
    rf"os\.environ\[.*|sys\.(std\w+|\w+hook|modules\[.*)|os\._exit|owner\.\w+|.*\.({_ATTRIBUTES})", re.DOTALL
)
"""Targets of assignments that the process shares."""


def changing(source: str) -> Iterator[str]:
    """The calls and assignments of a file that change what the process shares."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if name in OF:
                base = ast.unparse(function.value) if isinstance(function, ast.Attribute) else ""
                if re.fullmatch(OF[name], base):
                    yield name
            elif CALLS.fullmatch(name):
                yield name
        elif isinstance(node, (ast.Assign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in (part for each in targets for part in getattr(each, "elts", [each])):
                if isinstance(target, (ast.Attribute, ast.Subscript)) and ASSIGNED.fullmatch(
                    told := ast.unparse(target)
                ):
                    yield told.partition("[")[0].rpartition(".")[2] + " ="
        elif isinstance(node, ast.Global):
            yield "global"


def found() -> dict[str, set[str]]:
    """By file."""
    files = [path for package in ("workbench", "simulator", "templates") for path in (ROOT / package).rglob("*.py")]
    made = {str(path.relative_to(ROOT)): set(changing(path.read_text(encoding="utf-8"))) for path in files}
    return {path: calls for path, calls in made.items() if calls}


def in_table() -> dict[str, set[str]]:
    rows = [line.split("|")[1:3] for line in TABLE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    return {path.strip(" `"): set(re.findall(r"`([^`]+)`", calls)) for path, calls in rows}


def test_the_table_has_every_place_that_changes_what_all_threads_share() -> None:
    places, told = found(), in_table()
    missing = {path: calls - told.get(path, set()) for path, calls in places.items() if calls - told.get(path, set())}
    gone = {path: calls - places.get(path, set()) for path, calls in told.items() if calls - places.get(path, set())}
    assert not missing, f"say in {TABLE.name} what these change, for how long, and how it is fenced: {missing}"
    assert not gone, f"{TABLE.name} has places that are gone: {gone}"


def test_a_new_place_is_found() -> None:
    source = "import torch, os\ntorch.set_default_dtype(torch.float64)\nos.environ['A'] = '1'\nmodel.weight.data = x"
    assert set(changing(source)) == {"set_default_dtype", "environ =", "data ="}
