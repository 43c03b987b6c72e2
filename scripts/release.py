"""Prepares a release: checks the tree, builds wheel and source distribution in `dist`, and tests the wheel.

    make release

It prints the commands that tag and publish, and runs none of them. docs/releasing.md has the whole way.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BRANCH, DIST = "main", "dist"
BUILD_SDIST = "import setuptools.build_meta as build, sys; print(build.build_sdist(sys.argv[1]))"
PLACES = {
    "CITATION.cff": re.compile(r"^version: (\S+)$", re.M),
    "workbench/ground/version.py": re.compile(r'^VERSION = "([^"]+)"$', re.M),
}
"""The files that say the version, beside pyproject.toml and the changelog, and how."""
SECTION = re.compile(r"^## \[?([^\]\s]+)\]?(?: - (\S+))?$", re.M)
"""A section of the changelog: its version and its date."""
RELEASED = re.compile(r"^date-released: (\S+)$", re.M)


def project_version(root: Path) -> str:
    """The version in pyproject.toml."""
    return str(tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])


def other_versions(root: Path) -> Iterator[str]:
    """A sentence for each file that says another version, or another date, than it should."""
    wanted = project_version(root)
    for name, pattern in PLACES.items():
        said = _first(pattern, root / name)
        if said != wanted:
            yield f"{name} has the version {said}, pyproject.toml {wanted}"
    section = SECTION.search((root / "CHANGELOG.md").read_text(encoding="utf-8"))
    if section is None or section[1] != wanted:
        yield f"the first section of CHANGELOG.md is {section[1] if section else None}; expected [{wanted}] - DATE"
    elif section[2] != (date := _first(RELEASED, root / "CITATION.cff")):
        yield f"CHANGELOG.md dates {wanted} to {section[2]}, CITATION.cff to {date}"


def _first(pattern: re.Pattern[str], path: Path) -> str | None:
    """The group of the first match in a file; None without a match."""
    found = pattern.search(path.read_text(encoding="utf-8"))
    return found[1] if found else None


def unready(root: Path) -> Iterator[str]:
    """A sentence for each reason why the repository cannot be released as it is."""
    if changed := output(["git", "status", "--porcelain"], root).splitlines():
        more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
        yield f"the tree is not clean, beside the last commit: {', '.join(line[3:] for line in changed[:5])}{more}"
    if (branch := output(["git", "rev-parse", "--abbrev-ref", "HEAD"], root).strip()) != BRANCH:
        yield f"the branch is {branch}; a release is made of {BRANCH}"
    if output(["git", "tag", "--list", tag_of(root)], root).strip():
        yield f"there is a tag {tag_of(root)}; raise the version"
    yield from other_versions(root)


def tag_of(root: Path) -> str:
    """The tag of the release."""
    return f"v{project_version(root)}"


def output(command: Sequence[str | Path], folder: Path) -> str:
    """Runs a command, which must succeed, and returns the text that it prints. It does not see `PYTHONPATH`."""
    usual = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(command, cwd=folder, env=usual, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))} ended with {ran.returncode}:\n{ran.stdout}{ran.stderr}")
    return ran.stdout


def build_sdist(repository: Path, into: Path) -> Path:
    """Builds the source distribution of a repository's folder."""
    return into / output([sys.executable, "-c", BUILD_SDIST, into], repository).splitlines()[-1]


def build_wheel(unpacked: Path, into: Path) -> Path:
    """Builds the wheel of an unpacked source distribution."""
    before = set(into.glob("*.whl"))
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    output([*pip, "--wheel-dir", into, "."], unpacked)
    (made,) = set(into.glob("*.whl")) - before
    return made


def unpack(archive: Path, into: Path) -> Path:
    """Unpacks an archive of one folder, and returns that folder."""
    with tarfile.open(archive) as packed:
        packed.extractall(into)
        (top,) = {name.split("/")[0] for name in packed.getnames()}
    return into / top


def build(root: Path) -> tuple[Path, Path]:
    """Builds source distribution and wheel of the last commit, in an empty `dist`."""
    dist = root / DIST
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir()
    with tempfile.TemporaryDirectory() as name:
        folder, committed = Path(name), Path(name) / "committed.tar"
        output(["git", "archive", "--prefix", "committed/", "--output", committed, "HEAD"], root)
        sdist = build_sdist(unpack(committed, folder), dist)
        return sdist, build_wheel(unpack(sdist, folder), dist)


def main() -> int:
    if reasons := [*unready(ROOT)]:
        print("no release is made:", *reasons, sep="\n  ")
        return 1
    if subprocess.run(["make", "check", f"VENV={sys.prefix}"], cwd=ROOT, check=False).returncode:
        print("no release is made: `make check` failed")
        return 1
    made = build(ROOT)
    tests = [sys.executable, "-m", "pytest", "-q", "--whole", "tests/wheel"]
    environment = {**os.environ, "ATEN_WORKBENCH_DIST": str(ROOT / DIST)}
    if subprocess.run(tests, cwd=ROOT, env=environment, check=False).returncode:
        print(f"no release is made: the wheel in {DIST} fails tests/wheel")
        return 1
    tag, names = tag_of(ROOT), " ".join(path.relative_to(ROOT).as_posix() for path in made)
    print(f"ready: {names}\nNothing is published yet. To tag and publish this commit:")
    print(f'  git tag --annotate {tag} --message "ATen Workbench {tag}"', f"  git push origin {tag}", sep="\n")
    print(f"  python -m twine upload {names}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
