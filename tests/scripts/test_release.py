"""`make release`: what it refuses, what it builds, and the files around a release, which say the same."""

from __future__ import annotations

import re
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

import workbench as wb
from scripts import release

ROOT = Path(__file__).resolve().parents[2]
FILES = {
    "pyproject.toml": """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "small"
version = "1.2.0"
[tool.setuptools]
packages = ["workbench", "workbench.ground"]
""",
    "workbench/__init__.py": "",
    "workbench/ground/__init__.py": "",
    "workbench/ground/version.py": 'VERSION = "1.2.0"\n',
    "CITATION.cff": "version: 1.2.0\ndate-released: 2027-03-01\n",
    "CHANGELOG.md": "# Changelog\n\n## [1.2.0] - 2027-03-01\n\n## [1.1.0] - 2027-01-01\n",
    "Makefile": "check:\n\ttest ! -e broken\n",
    ".gitignore": "dist/\nbroken\n__pycache__/\n.pytest_cache/\n",
    "tests/wheel/conftest.py": "def pytest_addoption(parser):\n    parser.addoption('--whole', action='store_true')\n",
    "tests/wheel/test_small.py": """
import os
from pathlib import Path

def test_the_built_files_are_there():
    names = sorted(path.name for path in Path(os.environ["ATEN_WORKBENCH_DIST"]).iterdir())
    assert names == ["small-1.2.0-py3-none-any.whl", "small-1.2.0.tar.gz"] and not Path("failing").exists()
""",
}


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small repository that can be released, in place of ours."""
    root = tmp_path / "small"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    git(tmp_path, "init", "--quiet", "--initial-branch", "main", str(root))
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "Add all")
    monkeypatch.setattr(release, "ROOT", root)
    return root


def replaced(name: str, old: str, new: str) -> Callable[[Path], None]:
    """Changes a file and commits the change."""

    def change(root: Path) -> None:
        text = (root / name).read_text(encoding="utf-8")
        assert old in text
        (root / name).write_text(text.replace(old, new), encoding="utf-8")
        git(root, "commit", "--quiet", "--all", "--message", "Change it")

    return change


REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "a changed file": (
        lambda root: (root / "Makefile").write_text("check:\n"),  # type: ignore[dict-item, return-value]
        "the tree is not clean, beside the last commit: Makefile",
    ),
    "a branch": (
        lambda root: git(root, "switch", "--quiet", "-c", "other"),
        "the branch is other; a release is made of main",
    ),
    "a tag": (lambda root: git(root, "tag", "v1.2.0"), "there is a tag v1.2.0; raise the version"),
    "a citation": (
        replaced("CITATION.cff", "1.2.0", "1.1.0"),
        "CITATION.cff has the version 1.1.0, pyproject.toml 1.2.0",
    ),
    "the code": (
        replaced("workbench/ground/version.py", "1.2.0", "1.3.0"),
        "workbench/ground/version.py has the version 1.3.0, pyproject.toml 1.2.0",
    ),
    "an unreleased section": (
        replaced("CHANGELOG.md", "## [1.2.0] - 2027-03-01", "## [Unreleased]"),
        "the first section of CHANGELOG.md is Unreleased; expected [1.2.0] - DATE",
    ),
    "a day": (
        replaced("CHANGELOG.md", "2027-03-01", "2027-03-02"),
        "CHANGELOG.md dates 1.2.0 to 2027-03-02, CITATION.cff to 2027-03-01",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_ready_is_refused_with_the_reason(
    repository: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    change, reason = REFUSED[what]
    change(repository)
    assert release.main() == 1
    assert capsys.readouterr().out == f"no release is made:\n  {reason}\n"
    assert not (repository / "dist").exists()


def test_a_failing_check_ends_it_before_anything_is_built(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "broken").touch()
    assert release.main() == 1
    assert capsys.readouterr().out == "no release is made: `make check` failed\n"
    assert not (repository / "dist").exists()


def test_it_builds_the_last_commit_tests_it_and_prints_the_tag(
    repository: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (repository / "dist").mkdir()
    (repository / "dist" / "of-before-1.1.0.tar.gz").touch()
    assert release.main() == 0
    said = capfd.readouterr().out
    made = "dist/small-1.2.0.tar.gz dist/small-1.2.0-py3-none-any.whl"
    assert f"ready: {made}\nNothing is published yet." in said
    assert 'git tag --annotate v1.2.0 --message "ATen Workbench v1.2.0"' in said and f"twine upload {made}" in said
    listed = subprocess.run(["git", "tag"], cwd=repository, capture_output=True, text=True, check=True)
    assert listed.stdout == ""
    with tarfile.open(repository / "dist" / "small-1.2.0.tar.gz") as packed:
        assert "small-1.2.0/workbench/ground/version.py" in packed.getnames()


def test_a_wheel_that_fails_its_tests_is_no_release(repository: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (repository / "failing").touch()
    git(repository, "add", "failing")
    git(repository, "commit", "--quiet", "--message", "Fail")
    assert release.main() == 1
    assert "no release is made: the wheel in dist fails tests/wheel" in capfd.readouterr().out


def test_a_command_that_fails_tells_what_it_printed(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"git rev-parse .* ended with 128:\n.*not a git repository"):
        release.output(["git", "rev-parse", "HEAD"], tmp_path)


def test_all_files_say_the_same_version() -> None:
    assert [*release.other_versions(ROOT)] == [] and release.project_version(ROOT) == wb.__version__


def test_the_citation_has_what_cff_asks_for() -> None:
    said = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert said["cff-version"] == "1.2.0" and said["type"] == "software" and said["license"] == "Apache-2.0"
    assert {"message", "title", "authors", "version", "date-released"} <= set(said)
    assert said["authors"] == [{"name": "The ATen Workbench developers"}]


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.stem
)
def test_a_form_for_issues_has_what_its_reader_needs(path: Path) -> None:
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    asked = [each for each in form["body"] if each["type"] != "markdown"]
    assert (
        form["name"] and form["description"] and {each["type"] for each in asked} <= {"input", "textarea", "dropdown"}
    )
    names = [each["id"] for each in asked]
    assert len(set(names)) == len(names) and all(each["attributes"]["label"] for each in asked)
    assert "program" in names and [each for each in asked if each.get("validations", {}).get("required")]


def test_the_source_distribution_has_the_files_around_a_release() -> None:
    named = re.findall(r"^include (.+)$", (ROOT / "MANIFEST.in").read_text(encoding="utf-8"), re.M)
    files = [name for line in named for name in line.split() if "*" not in name]
    assert {"CHANGELOG.md", "CITATION.cff", "SECURITY.md"} <= set(files)
    assert [name for name in files if not (ROOT / name).is_file()] == []
