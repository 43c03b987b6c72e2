"""The plan of an installation, asked of pip before anything large is downloaded, and the sizes of the archives."""

from __future__ import annotations

import json
import os
import re
import ssl
import subprocess
import tempfile
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

OLDEST_PIP = (23, 3)
"""The first pip whose dry run reads metadata alone, where the index has it; older ones download every archive."""
SIZE_SECONDS = 3
LARGE = 50 * 10**6
_GPU_LIBRARY = re.compile(r"(nvidia|cuda)[-_.\w]*")


@dataclass(frozen=True)
class Archive:
    """One package that pip would install."""

    name: str
    version: str
    url: str
    requires: tuple[str, ...] = ()

    @property
    def needs_gpu_libraries(self) -> bool:
        """True if the package requires libraries for GPUs."""
        return needs_gpu_libraries(self.requires)


def needs_gpu_libraries(requires: Sequence[str]) -> bool:
    """True if a requirement outside of extras is a library for GPUs."""
    return any(_GPU_LIBRARY.match(each) for each in requires if "extra ==" not in each)


def planned(python: Path, arguments: Sequence[str]) -> tuple[Archive, ...] | None:
    """Returns what `pip install` with these arguments would install; None where pip cannot tell."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [str(python), "-m", "pip", "install", "--dry-run", "--quiet", "--disable-pip-version-check"]
        done = subprocess.run([*command, "--report", str(report), *arguments], capture_output=True, check=False)
        if done.returncode or not report.is_file():
            return None
        told = json.loads(report.read_text(encoding="utf-8"))
    return tuple(
        Archive(
            each["metadata"]["name"],
            each["metadata"]["version"],
            each["download_info"]["url"],
            tuple(each["metadata"].get("requires_dist", ())),
        )
        for each in told["install"]
    )


def renewed_pip(python: Path) -> bool:
    """True if the environment's pip plans without downloading; an older one is brought up to date first."""
    if _pip_version(python) >= OLDEST_PIP:
        return True
    newest = "pip>=" + ".".join(map(str, OLDEST_PIP))
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade", newest]
    subprocess.run(command, capture_output=True, check=False)
    return _pip_version(python) >= OLDEST_PIP


def _pip_version(python: Path) -> tuple[int, ...]:
    asked = [str(python), "-c", "import importlib.metadata as m; print(m.version('pip'))"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return tuple(map(int, re.findall(r"\d+", done.stdout)[:2]))


def sizes(archives: Sequence[Archive]) -> list[int | None]:
    """The bytes to download for each archive: 0 for a file on this disk, None where the server does not tell."""
    with ThreadPoolExecutor(16) as pool:
        return list(pool.map(_size, (archive.url for archive in archives)))


def _size(url: str) -> int | None:
    if url.startswith("file:"):
        return 0
    request = urllib.request.Request(url, method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=SIZE_SECONDS, context=certificates()) as answer:
            return int(answer.headers["Content-Length"])
    except (OSError, TypeError, ValueError):  # no answer, or one without a length
        return None


def certificates() -> ssl.SSLContext:
    """The certificates that pip was told to trust, else those of the system."""
    given = os.environ.get("PIP_CERT")
    return ssl.create_default_context(cafile=given if given and Path(given).is_file() else None)


def told(archives: Sequence[Archive], sized: Sequence[int | None]) -> str:
    """Says how many packages are installed, and how many megabytes they take to download."""
    known = [(size, archive.name) for archive, size in zip(archives, sized, strict=True) if size is not None]
    large = sorted((each for each in known if each[0] >= LARGE), reverse=True)
    text = f"{_counted(len(archives))} to install, {megabytes(sum(size for size, _ in known))} to download"
    if large:
        text += f" ({', '.join(f'{name} {megabytes(size)}' for size, name in large[:4])})"
    unknown = len(archives) - len(known)
    return f"{text}; the size of {_counted(unknown)} is not known" if unknown else text


def _counted(number: int) -> str:
    return "1 package" if number == 1 else f"{number:,} packages"


def megabytes(size: int) -> str:
    return f"{size / 10**6:,.0f} MB"
