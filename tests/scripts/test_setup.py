"""`python scripts/setup.py`: what it makes, on which systems, and when it makes it again."""

from __future__ import annotations

import importlib.util
import re
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, in a folder of its own with the two files, and with what it would run noted in `ran`."""
    spec = importlib.util.spec_from_file_location("setup_script", ROOT / "scripts" / "setup.py")
    assert spec and spec.loader
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    for name in made.KEYED_ON:
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    ran: list[list[str]] = []

    def call(command: list[str], cwd: Path) -> int:
        ran.append(list(command))
        if command[1:3] == ["-m", "venv"]:
            python = made.program(Path(command[3]), "python")
            python.parent.mkdir(parents=True)
            python.touch()
        return 0

    monkeypatch.setattr(made, "ROOT", tmp_path)
    monkeypatch.setattr(made.subprocess, "call", call)
    monkeypatch.setattr(made, "ran", ran, raising=False)
    return made


def test_it_installs_once_for_each_state_of_the_two_files(setup: ModuleType, tmp_path: Path) -> None:
    assert setup.main(["install"]) == 0
    python = str(setup.program(tmp_path / ".venv", "python"))
    assert setup.ran[0] == [sys.executable, "-m", "venv", str(tmp_path / ".venv")]
    assert setup.ran[1][0] == python and setup.ran[1][1:4] == ["-m", "pip", "install"]
    constraint, editable = setup.ran[1][-3], setup.ran[1][-1]
    assert (constraint, editable) == (str(tmp_path / "constraints.txt"), f"{tmp_path}[lab,test]")
    setup.ran.clear()
    assert setup.main(["install"]) == 0 and setup.ran == []
    for name in setup.KEYED_ON:
        with open(tmp_path / name, "a", encoding="utf-8") as file:
            file.write("\n")
        assert setup.main(["install"]) == 0
        assert [command[1:4] for command in setup.ran] == [["-m", "pip", "install"]]
        setup.ran.clear()


def test_it_says_now_and_then_that_it_still_installs(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    called = setup.subprocess.call

    def slow(command: list[str], cwd: Path) -> int:
        said = ""
        while "pip" in command and said.count("still installing, 0 s") < 2:
            said += capsys.readouterr().out
            time.sleep(0.01)
        return called(command, cwd)

    monkeypatch.setattr(setup.subprocess, "call", slow)
    monkeypatch.setattr(setup, "SAY_SECONDS", 0.01)
    assert setup.main(["install"]) == 0


def test_the_front_of_mybinder_is_an_environment_of_its_own(setup: ModuleType, tmp_path: Path) -> None:
    listed = tmp_path / setup.FRONT
    listed.parent.mkdir()
    listed.write_bytes((ROOT / setup.FRONT).read_bytes())
    for installs in ([["-m", "venv"], ["-m", "pip"]], []):
        assert setup.main(["front"]) == 0
        assert [command[1:3] for command in setup.ran] == installs
        assert all(str(tmp_path / ".venv-front") in " ".join(command) for command in setup.ran)
        setup.ran.clear()


def test_an_installation_that_failed_is_tried_again(setup: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup.subprocess, "call", lambda command, cwd: 7)
    for _ in range(2):
        with pytest.raises(SystemExit) as ended:
            setup.main(["install"])
        assert ended.value.code == 7


def test_programs_lie_where_the_system_puts_them(setup: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for system, place in (("nt", "v/Scripts/workbench.exe"), ("posix", "v/bin/workbench")):
        monkeypatch.setattr(setup, "SYSTEM", system)
        assert setup.program(Path("v"), "workbench") == Path(place)


def test_the_two_commands(setup: ModuleType) -> None:
    venv = Path("v")
    compiled, lab = setup.commands(setup.parsed(["lab", "--port", "9"]), venv)
    assert compiled == [str(setup.program(venv, "workbench")), "compile"]
    assert lab == [str(setup.program(venv, "workbench")), "lab", "--port", "9", "--ip", "localhost"]
    first, tests, notebooks = setup.commands(setup.parsed(["test", "--workers", "2"]), venv)
    assert first == compiled
    assert tests[-1] == "tests" and notebooks[-1] == "notebooks" and "--nbval-lax" in notebooks
    assert all(command[command.index("--maxprocesses") + 1] == "2" for command in (tests, notebooks))


def test_all_is_run_where_a_program_cannot_take_the_place_of_another(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "install", lambda venv: None)
    monkeypatch.setattr(setup, "SYSTEM", "nt")
    assert setup.main(["test"]) == 0
    assert [command[-1] for command in setup.ran] == ["compile", "tests", "notebooks"]
    assert all(command[0].endswith(".exe") for command in setup.ran)


def test_it_uses_the_standard_library_alone_and_make_calls_it() -> None:
    text = (ROOT / "scripts" / "setup.py").read_text(encoding="utf-8")
    imported = set(re.findall(r"^(?:import|from) (\w+)", text, re.MULTILINE)) - {"__future__"}
    assert imported <= sys.stdlib_module_names
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in ("install", "lab", "test", "front"):
        assert f"scripts/setup.py {command} --venv $(VENV)" in makefile
    assert "pip install" not in makefile and "--nbval-lax" not in makefile
