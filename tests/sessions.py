"""Sessions of IPython in tests: nothing of one is left behind, neither in this process nor in the home folder."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell


@contextmanager
def own_session(folder: Path) -> Generator[None]:
    """Inside, `InteractiveShell.instance()` is a new session that keeps its files in `folder`."""
    main = sys.modules["__main__"]
    InteractiveShell.clear_instance()
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("IPYTHONDIR", str(folder))
        try:
            yield
        finally:
            InteractiveShell.clear_instance()
            sys.modules["__main__"] = main
