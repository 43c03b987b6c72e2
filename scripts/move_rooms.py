"""Moves the folders and files of `workbench` into their rooms (docs/design/rooms.md), and rewrites every name and path.

    python scripts/move_rooms.py

What has moved already is left where it is, so it can run again on a tree that was merged with others.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from workbench.ground.moved_names import MOVED  # noqa: E402 - found from the root, wherever this runs

HOME = {
    "views.basics": "ground.basics",
    "importing.import_trial": "operators.aten.import_trial",
} | {name: f"{room}.{name}" for name, room in MOVED.items()}
"""Old place of a folder or file of `workbench` -> new place: those inside others first."""
TEXTS = frozenset({".py", ".md", ".ipynb", ".toml", ".js", ".j2", ".yml", ".cfg", ".in", ".txt", ""})


def moved(text: str) -> str:
    """The text with every dotted name, path and import of what moves."""
    dotted, slashed = ("|".join(map(re.escape, names)) for names in (HOME, map(_slashes, HOME)))
    text = re.sub(rf"(?<![\w/-])workbench\.({dotted})\b(?!\()", lambda found: f"workbench.{HOME[found[1]]}", text)
    text = re.sub(rf"\bworkbench/({slashed})\b", lambda found: f"workbench/{_new(found[1])}", text)
    text = re.sub(r"^([ \t]*)from workbench import ([\w, ]+)$", _imports, text, flags=re.M)
    text = re.sub(
        r"^([ \t]*)from workbench\.(?:explaining\.views|scheduling\.importing) import ([\w, ]+)$",
        _inside,
        text,
        flags=re.M,
    )
    return re.sub(rf"(?<![\w/.-])({slashed})/([\w/]+\.(?:py|j2|json))\b", _path, text)


def _slashes(name: str) -> str:
    return name.replace(".", "/")


def _new(old: str) -> str:
    """The new path of an old one."""
    return _slashes(HOME[old.replace("/", ".")])


def _inside(found: re.Match[str]) -> str:
    """`from workbench.views import basics`, and what else moves out of a folder that moves."""
    homes = {"basics": "ground", "import_trial": "operators.aten"}
    names, lines = found[2].split(", "), list[str]()
    for name in names:
        if name in homes:
            lines.append(f"{found[1]}from workbench.{homes[name]} import {name}")
    rest = [name for name in names if name not in homes]
    if rest:
        lines.insert(0, found[0].replace(found[2], ", ".join(rest)))
    return "\n".join(lines)


def _imports(found: re.Match[str]) -> str:
    """`from workbench import a, b`, each name from its new home."""
    rest, lines = list[str](), list[str]()
    for name in found[2].split(", "):
        home = HOME.get(name.split(" as ")[0])
        if home is None or name == "ops":  # wb.ops has its name in workbench itself
            rest.append(name)
        else:
            lines.append(f"{found[1]}from workbench.{home.rpartition('.')[0]} import {name}")
    if rest:
        lines.insert(0, f"{found[1]}from workbench import {', '.join(rest)}")
    return "\n".join(lines)


def _path(found: re.Match[str]) -> str:
    """A path from `workbench` on, where there is such a file."""
    new = f"{_new(found[1])}/{found[2]}"
    return new if (ROOT / "workbench" / new).exists() else found[0]


def main() -> int:
    outer = {name.partition(".")[0] for name in HOME if "." in name}
    for name in sorted(HOME, key=lambda each: 2 * (each in outer) + ("." in each)):  # what moves out of a folder first
        home = HOME[name]
        for old in (ROOT / "workbench" / _slashes(name), ROOT / "workbench" / f"{_slashes(name)}.py"):
            if old.exists() and (old.suffix or any(old.rglob("*.py"))):
                new = ROOT / "workbench" / _slashes(home)
                new.parent.mkdir(parents=True, exist_ok=True)
                subprocess.run(["git", "mv", old, f"{new}{old.suffix}"], cwd=ROOT, check=True)
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for path in (ROOT / name for name in listed.splitlines()):
        if path.suffix in TEXTS and path != Path(__file__).resolve() and path.is_file():
            text = path.read_text(encoding="utf-8")
            if (new_text := moved(text)) != text:
                path.write_text(new_text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
