"""Package indexes on this machine, of tiny packages: what `scripts/setup.py` asks for, and what it downloads."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import threading
import zipfile
from collections.abc import Iterator, Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


def write_wheel(folder: Path, name: str, version: str, requires: Sequence[str] = (), size: int = 0) -> Path:
    """A package with one empty module, and `size` bytes beside it."""
    stem, file = name.replace("-", "_"), folder / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {each}\n" for each in requires)
    info = f"{stem}-{version}.dist-info"
    contents = {
        f"{stem}/__init__.py": "",
        f"{stem}/contents": "x" * size,
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{each},,\n" for each in (*contents, f"{info}/RECORD"))
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w") as packed:
        for path, text in (contents | {f"{info}/RECORD": record}).items():
            packed.writestr(path, text)
    (folder / f"{file.name}.metadata").write_text(metadata, encoding="utf-8")
    return file


class Index:
    """An index that serves a folder as PEP 503 and PEP 658 have it, and keeps what was asked of it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked = folder, list[str]()
        index = self

        class Handler(SimpleHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:
                if self.command == "GET":
                    index.asked.append(self.path.strip("/"))

        folder.mkdir(parents=True, exist_ok=True)
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def add(self, name: str, version: str, requires: Sequence[str] = (), size: int = 0) -> Path:
        wheel = write_wheel(self.folder / name, name, version, requires, size)
        page = self.folder / name / "index.html"
        digest = hashlib.sha256(wheel.with_name(f"{wheel.name}.metadata").read_bytes()).hexdigest()
        link = f'<a href="{wheel.name}" data-dist-info-metadata="sha256={digest}">{wheel.name}</a>\n'
        page.write_text((page.read_text() if page.is_file() else "<!DOCTYPE html>\n") + link, encoding="utf-8")
        return wheel

    @property
    def downloaded(self) -> set[str]:
        """The names of the archives that were fetched."""
        return {Path(each).name.split("-")[0] for each in self.asked if each.endswith(".whl")}


@contextlib.contextmanager
def serving(*indexes: Index) -> Iterator[None]:
    threads = [threading.Thread(target=each.server.serve_forever, daemon=True) for each in indexes]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for each in indexes:
            each.server.shutdown()
            each.server.server_close()


@contextlib.contextmanager
def silent() -> Iterator[str]:
    """The address of a server that accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
