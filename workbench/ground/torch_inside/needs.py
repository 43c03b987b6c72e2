"""Private parts of PyTorch: each is taken by one function or name of ours, which says what it takes and what for.

A PyTorch that lacks a part fails where that part is first needed, with one sentence of ours.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec, TypeVar

from workbench.ground.errors import MissingInPyTorch

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Need:
    """Private parts of PyTorch that the workbench takes for one purpose."""

    paths: tuple[str, ...]
    """Dotted names. A name may contain a call, such as `torch.nn.Module()`: its result has the attribute that
    follows."""
    instead: str
    """The public way; begins with "none" where PyTorch has none."""
    use: str = ""
    """The purpose; if it is empty, the first sentence of the function's docstring."""

    @property
    def path(self) -> str:
        """The only dotted name, for parts that are used by their name, such as a logger."""
        (path,) = self.paths
        return path

    @property
    def names(self) -> tuple[str, ...]:
        """The last parts of the dotted names, for attributes that are read by name; checks that PyTorch has them."""
        self.check()
        return self.names_unseen

    @property
    def names_unseen(self) -> tuple[str, ...]:
        """The last parts of the dotted names, without a check that PyTorch has them."""
        return tuple(path.rpartition(".")[2] for path in self.paths)

    def check(self, user: str = "") -> None:
        """Raises an error for the first part that this PyTorch lacks."""
        for path in self.paths:
            if not _is_there(path):
                raise MissingInPyTorch(self.sentence(path, user))

    def sentence(self, path: str, user: str = "") -> str:
        """The text of the error: the missing part, its purpose, and what to do."""
        import torch

        by = f" for {user}" if user else ""
        return (
            f"PyTorch {torch.__version__} has no {path}, which the workbench takes{by}: {self.use} Public way: "
            f"{self.instead}. Install a PyTorch that the workbench knows (its pyproject.toml says which); "
            "docs/design/torch-inside.md lists all that it takes"
        )

    def __enter__(self) -> None:
        """Checks the parts before the lines within import them."""
        self.check()

    def __exit__(self, *_: object) -> None:
        """Passes each exception on."""

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Decorates a function to check the parts at its first call, and to list them in its docstring."""
        said = (function.__doc__ or "").strip()
        need, known = Need(self.paths, self.instead, self.use or " ".join(said.partition("\n\n")[0].split())), False

        @wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            nonlocal known
            if not known:
                need.check(function.__name__)
                known = True
            return function(*args, **kwargs)

        called.__doc__ = f"{said}\n\nTakes {', '.join(self.paths)}. Public way: {self.instead}."
        return called


def takes(*paths: str, instead: str, use: str = "") -> Need:
    """Declares private parts of PyTorch, which the function below or the imports within the block take."""
    return Need(paths, instead, use)


def _is_there(path: str) -> bool:
    """True if PyTorch has the name; imports the module that has it."""
    import torch

    plain, called, _ = path.partition("(")
    try:
        pkgutil.resolve_name(plain)
    except (ImportError, AttributeError):
        return False
    owner, _, name = path.rpartition(".")
    return not called or hasattr(eval(owner, {"torch": torch}), name)
