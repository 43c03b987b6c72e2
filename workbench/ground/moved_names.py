"""Other names of modules: former names, such as `workbench.kernels.template`; and the second name of packages that are
beside `workbench` in the repository and inside it in the wheel: `simulator` and `workbench.simulator` are one module in
both."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import MappingProxyType, ModuleType
from typing import Final

from workbench.ground.packages import IN_WHEEL, PARTS, folder

MOVED: Final = MappingProxyType(
    {
        **dict.fromkeys(("aten", "formulas", "ops", "new_op", "host", "tensors"), "operators"),
        **dict.fromkeys(("mappings", "extraction", "planning", "kernels", "importing"), "scheduling"),
        **dict.fromkeys(("knobs", "tuning", "comparison", "advice", "summary"), "exploring"),
        **dict.fromkeys(("findings", "views", "artefacts"), "explaining"),
        **dict.fromkeys(("cli", "program_file", "lab_server", "doctor", "worker"), "commands"),
        **dict.fromkeys(("errors", "environment", "faults", "version"), "ground"),
        **dict.fromkeys(("options", "pipeline", "run_and_check"), "stages"),
        "rewriting": "capturing",
    }
)
"""The package that now has each folder or file that was directly in `workbench`."""


def new_name(name: str) -> str | None:
    """The real name of a module that is imported by a former or second name. None if the name is the real one, or means
    another library's `simulator`."""
    package, _, rest = name.partition(".")
    if IN_WHEEL and package in PARTS:
        return f"workbench.{name}" if _is_ours(package) else None
    if package != "workbench":
        return None
    first = rest.partition(".")[0]
    if first in PARTS:
        return None if IN_WHEEL else rest
    return f"workbench.{MOVED[first]}.{rest}" if first in MOVED else None


def _is_ours(package: str) -> bool:
    """True if a name that the wheel does not have, such as `simulator`, means our package: ours was imported by this
    name, or nothing else with code has it."""
    if package in sys.modules:
        return sys.modules[package] is sys.modules.get(f"workbench.{package}")
    found = _found_on_path(package)
    return found is None or not _has_code(found)


def _found_on_path(name: str) -> ModuleSpec | None:
    """Returns the module that the other finders have for a name."""
    finders = [each for each in sys.meta_path if not isinstance(each, _Moved)]
    return next(filter(None, (each.find_spec(name, None) for each in finders)), None)


def _refuse_anothers(name: str, spec: ModuleSpec | None) -> None:
    """Raises an error if the repository's code, which imports `simulator`, would get another library's package."""
    place = spec.origin if spec is not None else None
    if place is not None and os.path.dirname(os.path.realpath(place)) != folder(name):
        raise ImportError(
            f"the workbench in {os.path.dirname(folder(name))} needs its own package {name}, but Python finds {place} "
            "under that name. Take that off the path, or install the workbench's wheel, which leaves the name free: "
            "pip install . instead of pip install --editable ."
        )


def _has_code(spec: ModuleSpec) -> bool:
    """True if a package has code. To Python any folder on its path is a package, such as a folder of pages called
    `templates`."""
    folders = spec.submodule_search_locations if spec.origin is None else None
    if folders is None:
        return True
    return any(name.endswith((".py", ".so", ".pyd")) for place in folders for name in os.listdir(place))


class _Moved(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        if fullname in PARTS and not IN_WHEEL:
            _refuse_anothers(fullname, _found_on_path(fullname))
        new = new_name(fullname)
        return importlib.util.spec_from_loader(fullname, _SameModule(new)) if new else None


class _SameModule(Loader):
    """Loads a module by its real name: both names give the same module."""

    def __init__(self, new: str) -> None:
        self._new = new
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._new)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


def find_moved_names() -> None:
    """Makes Python look here before it looks for files, which it would load twice: once by each name."""
    for name in PARTS if not IN_WHEEL else ():
        if name in sys.modules:
            _refuse_anothers(name, sys.modules[name].__spec__)
    sys.meta_path.insert(0, _Moved())
