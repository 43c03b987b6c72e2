"""Names from before the rooms: `from workbench.kernels.template import Template` still finds its file."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import MappingProxyType, ModuleType
from typing import Final

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
"""The room of each folder or file that stood in `workbench` itself."""


def new_name(name: str) -> str | None:
    """The name by which a file is imported now; None for one that has not moved."""
    package, _, rest = name.partition(".")
    room = MOVED.get(rest.partition(".")[0]) if package == "workbench" else None
    return f"workbench.{room}.{rest}" if room else None


class _Moved(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        new = new_name(fullname)
        return importlib.util.spec_from_loader(fullname, _SameModule(new)) if new else None


class _SameModule(Loader):
    """Loads a module by its new name: there is one module of both names."""

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
    """Has Python look here before it looks for files, which it would load twice: once by each name."""
    sys.meta_path.insert(0, _Moved())
