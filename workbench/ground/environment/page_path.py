"""The path of a page that a command is to write, checked before the work and not after it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from simulator.files.versioned_files import check_folder
from workbench.ground.errors import BadOption

_ENDINGS: Final = (".html", ".htm")


def check_page_path(option: str, page: Path) -> None:
    """Raises where no page can be written: a page is HTML, and a name with another file's ending is a mistake."""
    check_folder(page)
    if page.suffix.lower() not in _ENDINGS:
        raise BadOption(
            f"{option} {page}: the command writes a page, whose name must end in {' or '.join(_ENDINGS)}. "
            "Python writes other files: j.save('FILE.journey'), j.to_perfetto('FILE.json')"
        )
