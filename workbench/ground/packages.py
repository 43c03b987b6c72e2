"""The folders of `simulator` and `templates`: beside `workbench` in the repository, in it in the wheel.

The repository's code imports `simulator`; in the wheel these imports are of `workbench.simulator`, since whoever
installs it may have a `simulator` of another's (docs/design/wheel.md). What asks for a package by a text, or keeps the
name of a module, asks here.
"""

from __future__ import annotations

import os.path
from typing import Final

PARTS: Final = ("simulator", "templates")
_LIBRARY: Final = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
IN_WHEEL: Final = os.path.isdir(os.path.join(_LIBRARY, PARTS[0]))
OWN: Final = ("workbench",) if IN_WHEEL else ("workbench", *PARTS)
"""The names of ours that Python finds on its path."""


def folder(part: str) -> str:
    """Returns the folder of `simulator` or `templates`."""
    return os.path.join(_LIBRARY if IN_WHEEL else os.path.dirname(_LIBRARY), part)


def own_name(name: str) -> str:
    """Returns the name that a module of `simulator` or `templates` has itself."""
    return f"workbench.{name}" if IN_WHEEL else name


def lasting_name(name: str) -> str:
    """Returns the name of a module as files keep it, which is one for the repository and the wheel."""
    package, _, rest = name.partition(".")
    return rest if package == "workbench" and rest.partition(".")[0] in PARTS else name
