"""The folders of `simulator` and `templates`: beside `workbench` in the repository, in it in the wheel.

The repository's code imports `simulator`; in the wheel these imports are of `workbench.simulator`, since whoever
installs it may have another library's `simulator` (docs/design/wheel.md). Code that imports a package by a text, or
stores the name of a module, uses these functions.
"""

from __future__ import annotations

import os.path
from typing import Final

PARTS: Final = ("simulator", "templates")
_LIBRARY: Final = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
IN_WHEEL: Final = os.path.isdir(os.path.join(_LIBRARY, PARTS[0]))
OWN: Final = ("workbench",) if IN_WHEEL else ("workbench", *PARTS)
"""The names of our packages that Python finds on its path."""


def folder(part: str) -> str:
    """Returns the folder of `simulator` or `templates`."""
    return os.path.join(_LIBRARY if IN_WHEEL else os.path.dirname(_LIBRARY), part)


def own_name(name: str) -> str:
    """Returns the real name of a module of `simulator` or `templates`."""
    return f"workbench.{name}" if IN_WHEEL else name


def lasting_name(name: str) -> str:
    """Returns the name under which files keep a module: it is the same in the repository and in the wheel."""
    package, _, rest = name.partition(".")
    return rest if package == "workbench" and rest.partition(".")[0] in PARTS else name
