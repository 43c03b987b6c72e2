"""JupyterLab as `workbench lab` starts it: with our settings, and the course in the folder where it is started.

In a folder without the course, the notebooks, the recorded journeys and the pages that they link to are copied. A file
that is there already is never written: it may hold a person's work.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import quote

from simulator.did_you_mean import did_you_mean, sentences
from simulator.files.versioned_files import replace_file
from workbench.ground.errors import BadOption, MissingExtra

FIRST: Final = "notebooks/00_start_here.ipynb"
COPY: Final = "workbench-course"
"""The folder to which the course is copied."""
_PARTS: Final = ("notebooks/*.ipynb", "notebooks/recorded/*.journey", "notebooks/recorded/*.py", "docs/*.md")
"""The files of the course. `scripts/one_package.py` puts them into the wheel."""


@dataclass(frozen=True)
class Copied:
    """The result of copying the course, in names of files."""

    folder: Path
    new: tuple[str, ...]
    differing: tuple[str, ...]
    """Existing files that differ from this version's; they are left as they are."""

    def text(self) -> str:
        """Tells the person who started the lab what was copied, in one or two sentences."""
        text = f"the course is in {self.folder}"
        if self.new and not self.differing and FIRST in self.new:
            return f"the course was copied to {self.folder}: {len(self.new)} files. Your changes to them are kept"
        if self.new:
            count = len(self.new)
            text += "; 1 missing file was copied" if count == 1 else f"; {count} missing files were copied"
        if self.differing:
            text += (
                f"; kept as they are, though this version has others: {', '.join(self.differing)}. "
                "Rename such a file to get this version's"
            )
        return text


def source(package: Path | None = None) -> Path | None:
    """The folder that has the course: inside the installed package, or the repository of an editable installation."""
    home = package or Path(__file__).resolve().parents[1]
    return next((each for each in (home / "course", home.parent) if (each / FIRST).is_file()), None)


def files(folder: Path) -> Iterator[str]:
    """The files of the course, as paths with slashes."""
    for part in _PARTS:
        yield from (path.relative_to(folder).as_posix() for path in sorted(folder.glob(part)))


def copy_course(folder: Path, taken_from: Path) -> Copied:
    """Copies each file of the course that `folder` lacks."""
    new, differing = list[str](), list[str]()
    for name in files(taken_from):
        target, data = folder / name, (taken_from / name).read_bytes()
        if not os.path.lexists(target):
            _make_folder(target.parent)
            replace_file(target, data)
            new.append(name)
        elif target.suffix == ".ipynb" and (not target.is_file() or target.read_bytes() != data):
            differing.append(name)
    return Copied(folder, tuple(new), tuple(differing))


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadOption(
            f"the course cannot be copied to {folder}: {error.strerror}. Start workbench lab in a folder of your own"
        ) from None


def notebook_to_open(given: str | None) -> tuple[str, str]:
    """Returns the path of the notebook to open, as JupyterLab's address has it, and a text for the user.

    A file that exists is opened in its place. Otherwise the notebook is one of the course, which is copied first.
    """
    if os.path.isfile(given or FIRST):
        return _below_here(given or FIRST), ""
    taken_from = source()
    if taken_from is None:
        raise BadOption(
            f"there is no {given or FIRST} here, and this installation has no course to copy: install the wheel anew "
            "(pip install --force-reinstall --no-deps aten-workbench), or start workbench lab in the repository"
        )
    known = [name for name in files(taken_from) if name.endswith(".ipynb")]
    name = PurePosixPath(given or FIRST).name
    chosen = next((each for each in known if PurePosixPath(each).name == name), None)
    if chosen is None or (given and Path(given).parent.as_posix() not in (".", "notebooks")):
        short = [PurePosixPath(each).name for each in known]
        text = f"there is no notebook {given} here{did_you_mean(name, short)}"
        raise BadOption(sentences(text, f"The course has {', '.join(short)}"))
    copied = copy_course(Path(COPY).resolve(), taken_from)
    return f"{COPY}/{chosen}", copied.text()


def _below_here(notebook: str) -> str:
    """The path of a notebook in the folder that JupyterLab shows, which is the current one."""
    try:
        return Path(notebook).resolve().relative_to(Path.cwd().resolve()).as_posix()
    except ValueError:
        raise BadOption(
            f"--notebook {notebook}: JupyterLab shows the folder in which it is started; start workbench lab in "
            f"{Path(notebook).resolve().parent}"
        ) from None


def port(given: str) -> int:
    """Reads a port from its text; refuses anything but a whole number from 0 to 65,535."""
    if not re.fullmatch("[0-9]{1,5}", given) or int(given) >= 1 << 16:
        raise argparse.ArgumentTypeError(f"{given!r} is no port; expected a whole number, 0 to {(1 << 16) - 1:,}")
    return int(given)


def address(given: str) -> str:
    """Returns the text of an address, or of a name that has one; refuses anything else."""
    try:
        socket.getaddrinfo(given, None)
    except (OSError, UnicodeError):
        text = "expected localhost, 0.0.0.0 for all computers of the network, or an address of this one"
        raise argparse.ArgumentTypeError(f"{given!r} is no address; {text}") from None
    return given


def command(notebook: str, port: int, ip: str) -> list[str]:
    """The command that starts JupyterLab on a notebook."""
    started = [sys.executable, "-m", "jupyterlab", "--no-browser", f"--port={port}", f"--ip={ip}"]
    started.append(f"--LabApp.default_url=/lab/tree/{quote(notebook)}")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        started.append("--allow-root")
    return started


def check_jupyterlab() -> None:
    """Raises an error if JupyterLab is not installed."""
    if importlib.util.find_spec("jupyterlab") is None:
        raise MissingExtra("JupyterLab is not installed; pip install 'aten-workbench[lab]' brings it.")


def lab_environment() -> dict[str, str]:
    """The environment of JupyterLab: our defaults for its settings, which the user's own settings override. With our
    defaults JupyterLab does not ask, in a toast over the page, if it may fetch news."""
    folder = Path(__file__).parents[1] / "jupyter" / "config"
    given = os.environ.get("JUPYTER_CONFIG_PATH", "")
    return {**os.environ, "JUPYTER_CONFIG_PATH": os.pathsep.join(filter(None, [given, str(folder)]))}
