"""The shipped rules: one file a rule, or two rules about one cause. Each file's docstring explains the physics.

Importing this package imports all of its files, in the order of their names, and each registers its rules.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

for _file in iter_modules(__path__):
    import_module(f"{__name__}.{_file.name}")
