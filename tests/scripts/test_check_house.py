"""The house: nothing imports in a circle, whether late, by name or for types alone; files have names and an end."""

from __future__ import annotations

from pathlib import Path

from scripts.check_house import (
    NAMED,
    ROOT,
    SAME_NAMES,
    circle,
    imports,
    long_files,
    many_parameters,
    modules,
    same_names,
)


def test_nothing_imports_in_a_circle() -> None:
    known = modules()
    graph = imports(known)
    assert len(graph) > 400 and sum(map(len, graph.values())) > 2000
    assert circle(known) == []


def test_no_file_is_longer_than_a_reader_s_patience() -> None:
    assert long_files(modules()) == {}


def test_no_function_has_more_parameters_than_a_reader_keeps_apart() -> None:
    assert many_parameters(modules()) == {}


def test_each_rule_of_the_house_can_be_broken(tmp_path: Path) -> None:
    (tmp_path / "simulator").mkdir()
    wide = ", ".join("abcdefghi")
    (tmp_path / "simulator" / "one.py").write_text(f"def asked({wide}):\n    import simulator.two\n")
    (tmp_path / "simulator" / "two.py").write_text("from simulator.one import asked\n" + "\n" * 400)
    known = modules(tmp_path)
    assert set(circle(known)) == {"simulator.one", "simulator.two"}
    assert long_files(known) == {"simulator.two": 401}
    assert many_parameters(known) == {"simulator.one.asked": 9}
    for folder in ("tests", "workbench"):
        (tmp_path / folder).mkdir()
        for name in ("one.py", "judge.py"):
            (tmp_path / folder / name).touch()
    assert same_names(tmp_path) == {"one.py": ["simulator", "tests", "workbench"]}


def test_no_two_files_have_one_name() -> None:
    assert same_names() == {}


def test_names_that_several_files_may_have_are_those_of_several() -> None:
    counts = {name: sum(len([*(ROOT / folder).rglob(name)]) for folder in NAMED) for name in SAME_NAMES}
    assert min(counts.values()) > 1, counts


def test_folders_of_the_simulator_and_the_workbench_have_different_names() -> None:
    folders = {
        package: {path.parent.name for path in (ROOT / package).rglob("*.py")} for package in ("simulator", "workbench")
    }
    assert folders["simulator"] & folders["workbench"] == set()
