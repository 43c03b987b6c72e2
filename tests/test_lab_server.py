"""`workbench lab`: the course that it copies and opens, and what it never overwrites."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from workbench.commands import cli, lab_server
from workbench.ground.errors import BadOption

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Starts `workbench lab` in an empty folder; gives what it prints, and the address that it would open."""

    class Started(Exception):
        pass

    def start(_: str, command: list[str], environment: dict[str, str]) -> Any:
        raise Started(next(each for each in command if "default_url" in each))

    def run(*arguments: str, at: Path = tmp_path) -> str:
        monkeypatch.chdir(at)
        try:
            assert cli.main(["lab", *arguments]) == cli.USER_ERROR
        except Started as started:
            return f"{capsys.readouterr().out}{started.args[0].partition('=')[2]}"
        return capsys.readouterr().err

    monkeypatch.setattr(os, "name", "posix")
    monkeypatch.setattr(os, "execve", start)
    return run


def test_in_the_repository_it_opens_the_course_there(lab: Callable[..., str]):
    assert lab(at=ROOT) == f"/lab/tree/{lab_server.FIRST}"


def test_elsewhere_the_course_is_copied_once_and_edits_are_kept(lab: Callable[..., str], tmp_path: Path):
    copy = tmp_path / lab_server.COPY
    address = f"/lab/tree/{lab_server.COPY}/{lab_server.FIRST}"
    count = len(list(lab_server.files(ROOT)))
    first = f"the course was copied to {copy}: {count} files. Your changes to them are kept\n{address}"
    assert lab() == first
    assert lab() == f"the course is in {copy}\n{address}"
    edited, gone = copy / lab_server.FIRST, copy / "notebooks" / "11_training.ipynb"
    edited.write_text("mine", encoding="utf-8")
    gone.unlink()
    told = lab()
    assert edited.read_text(encoding="utf-8") == "mine" and gone.is_file()
    assert f"1 missing file was copied; kept as they are, though this version has others: {lab_server.FIRST}." in told
    assert lab(at=copy) == f"/lab/tree/{lab_server.FIRST}", "the copy is laid out like the repository"


def test_links_of_the_copied_notebooks_lead_to_copied_pages(lab: Callable[..., str], tmp_path: Path):
    lab()
    notebooks = sorted((tmp_path / lab_server.COPY / "notebooks").glob("*.ipynb"))
    links = [(path, link) for path in notebooks for link in re.findall(r"\]\((\.\./[^)#]+)", path.read_text("utf-8"))]
    assert len(links) >= 6
    assert [link for path, link in links if not (path.parent / link).is_file()] == []


def test_a_notebook_of_the_course_is_known_by_its_name(lab: Callable[..., str], tmp_path: Path):
    for given in ("02_the_lab.ipynb", "notebooks/02_the_lab.ipynb"):
        assert lab("--notebook", given).endswith(f"/lab/tree/{lab_server.COPY}/notebooks/02_the_lab.ipynb")
    (tmp_path / "my own.ipynb").touch()
    assert lab("--notebook", "my own.ipynb") == "/lab/tree/my%20own.ipynb"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("02_the_lap.ipynb", "there is no notebook 02_the_lap.ipynb here; did you mean '02_the_lab.ipynb'?"),
        ("mine/11_training.ipynb", "there is no notebook mine/11_training.ipynb here; did you mean '11_train"),
        (str(ROOT / lab_server.FIRST), f"start workbench lab in {ROOT / 'notebooks'}"),
    ],
)
def test_a_notebook_that_is_not_here_is_told(given: str, words: str, lab: Callable[..., str], tmp_path: Path):
    assert words in lab("--notebook", given)
    assert list(tmp_path.iterdir()) == []


def test_a_file_where_the_course_would_go_and_an_installation_without_one_are_told(
    lab: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / lab_server.COPY).write_text("a file", encoding="utf-8")
    assert "the course cannot be copied to" in lab()
    assert lab_server.source(tmp_path / "workbench") is None
    monkeypatch.setattr(lab_server, "source", lambda: None)
    assert "this installation has no course to copy" in lab()
    with pytest.raises(BadOption):
        lab_server.notebook_to_open(None)
