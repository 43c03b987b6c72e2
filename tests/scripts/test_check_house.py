"""The house: nothing imports in a circle, whether late, by name or for types alone; files have names and an end."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import check_markup
from scripts.check_house import (
    NAMED,
    ROOT,
    SAME_NAMES,
    STARTS_BROWSERS,
    browser_starts,
    circle,
    imports,
    long_files,
    many_parameters,
    modules,
    same_names,
)


@pytest.mark.test_all
def test_nothing_imports_in_a_circle() -> None:
    known = modules()
    graph = imports(known)
    assert len(graph) > 400 and sum(map(len, graph.values())) > 2000
    assert circle(known) == []


def test_no_file_is_longer_than_a_reader_s_patience() -> None:
    assert long_files(modules()) == {}


@pytest.mark.test_all
def test_no_function_has_more_parameters_than_a_reader_keeps_apart() -> None:
    assert many_parameters(modules()) == {}


def test_each_rule_of_the_house_can_be_broken(tmp_path: Path) -> None:
    (tmp_path / "simulator").mkdir()
    wide = ", ".join("abcdefghi")
    (tmp_path / "simulator" / "one.py").write_text(f"def asked({wide}):\n    import simulator.two\n")
    (tmp_path / "simulator" / "two.py").write_text("from simulator.one import asked\n" + "\n" * 400)
    known = modules(tmp_path)
    assert set(circle(known)) == {"simulator.one", "simulator.two"}
    assert "401 lines; look at it twice" in long_files(known)["simulator.two"]
    assert long_files(known, {"simulator.two": "one table"}) == {}
    assert "is short or gone" in long_files(known, {"simulator.one": "", "simulator.two": "one table"})["simulator.one"]
    assert many_parameters(known) == {"simulator.one.asked": 9}
    for folder in ("tests", "workbench"):
        (tmp_path / folder).mkdir()
        for name in ("one.py", "judge.py"):
            (tmp_path / folder / name).touch()
    assert same_names(tmp_path) == {"one.py": ["simulator", "tests", "workbench"]}


def test_no_two_files_have_one_name() -> None:
    assert same_names() == {}


def test_browsers_are_started_in_one_place(tmp_path: Path) -> None:
    assert browser_starts() == []
    lines = (
        "from playwright.sync_api import sync_playwright",
        "driver.chromium.launch(headless=True)",
        "subprocess.run([found, '--headless=new'])",
        "shutil.which('google-chrome')",
        "run.launch(3)",
    )
    for place in ("tests/jupyter/test_one.py", STARTS_BROWSERS):
        (tmp_path / place).parent.mkdir(parents=True)
        (tmp_path / place).write_text("\n".join(lines))
    assert browser_starts(tmp_path) == [f"tests/jupyter/test_one.py:{line}" for line in (1, 2, 3, 4)]


def test_names_that_several_files_may_have_are_those_of_several() -> None:
    counts = {name: sum(len([*(ROOT / folder).rglob(name)]) for folder in NAMED) for name in SAME_NAMES}
    assert min(counts.values()) > 1, counts


def test_folders_of_the_simulator_and_the_workbench_have_different_names() -> None:
    folders = {
        package: {path.parent.name for path in (ROOT / package).rglob("*.py")} for package in ("simulator", "workbench")
    }
    assert folders["simulator"] & folders["workbench"] == set()


@pytest.mark.test_all
def test_html_is_made_by_the_builder_alone() -> None:
    assert [*check_markup.violations(ROOT)] == []


WRONG_MARKUP = {
    "a tag in a text": "told = f'<b>{name}</b>'",
    "an end of one": "told = name + '</script>'",
    "a text called HTML": "told = Markup(name)",
    "an f-string as a template": "told = html(f'<b>{name}</b>')",
    "a file that may not trust": "told = trusted(name)",
}


@pytest.mark.parametrize("what", WRONG_MARKUP)
def test_markup_without_the_builder_is_found(what: str) -> None:
    assert [line for line, _ in check_markup.in_python(WRONG_MARKUP[what], "workbench/other.py")][:1] == [1]
    assert [*check_markup.in_python("told = html('<b>{}</b>', name)", "workbench/other.py")] == []


@pytest.mark.parametrize("code", ["a.innerHTML = b;", "x.insertAdjacentHTML(a, b)", "document.write(a)", "eval (a)"])
def test_javascript_that_sets_html_is_found(code: str) -> None:
    assert [line for line, _ in check_markup.in_javascript(f"// one\n{code}")] == [2]
