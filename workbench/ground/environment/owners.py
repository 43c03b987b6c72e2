"""The owner of a registration: the Python object, and where it is written."""

from __future__ import annotations

import inspect
import os
import types
from collections.abc import Callable
from dataclasses import dataclass

from workbench.ground.environment.call_sites import cell_name, cell_with
from workbench.ground.packages import OWN


@dataclass(frozen=True, slots=True)
class Owner:
    """The Python object that was registered, and where it is written."""

    module: str
    name: str
    file: str
    line: int

    @staticmethod
    def of(value: object) -> Owner:
        """The owner of a function or a class, with the place of its own code."""
        code = _code_of(value)
        module = str(getattr(value, "__module__", None) or "builtins")
        name = str(getattr(value, "__qualname__", type(value).__qualname__))
        if code is None:
            return Owner(module, name, *_class_place(value, module))
        return Owner(module, name, cell_name(code.co_filename), code.co_firstlineno)

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def is_shipped(self) -> bool:
        """True if the owner is the workbench."""
        return self.module.partition(".")[0] in OWN

    @property
    def is_cell(self) -> bool:
        """True if the code was typed into a notebook or a prompt: such code has no file."""
        return not os.path.exists(self.file)

    def replaces(self, other: Owner) -> bool:
        """True if this is the same thing defined again: the same object of a module, or any two cells of one
        notebook."""
        if self.module != other.module:
            return False
        return (self.file == other.file and self.name == other.name) or (self.is_cell and other.is_cell)


def _code_of(value: object) -> types.CodeType | None:
    """The code of a function, or of the first method of a class."""
    code = getattr(value, "__code__", None)
    if isinstance(code, types.CodeType):
        return code
    if not isinstance(value, type):
        return _code_of(type(value)) if type(value).__module__ != "builtins" else None
    methods = (_code_of(member) for member in vars(value).values() if isinstance(member, types.FunctionType))
    return next((code for code in methods if code is not None), None)


def _class_place(value: object, module: str) -> tuple[str, int]:
    """Returns the file and line of a class without methods; a class from a whole cell has its own record of this."""
    if isinstance(value, type):
        if "cell" in vars(value):
            return str(vars(value)["cell"]), 1
        if module == "__main__" and (cell := cell_with(f"class {value.__name__}")) is not None:
            return cell_name(cell[0]), cell[1] + 1
        try:
            return inspect.getsourcefile(value) or "<unknown>", inspect.getsourcelines(value)[1]
        except (OSError, TypeError):  # its code is in no file
            pass
    return "<unknown>", 0


def misfit(function: Callable[..., object], *given: str) -> str:
    """Returns the reason why a registered function cannot be called with these arguments; empty if it can, or if
    Python does not tell its parameters."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return ""
    try:
        signature.bind(*given)
    except TypeError:
        called = getattr(function, "__name__", type(function).__name__)
        return f"{called}{signature} at {Owner.of(function).place} cannot be called with ({', '.join(given)})"
    return ""
