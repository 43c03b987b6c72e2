"""`python scripts/setup.py`: what it makes, on which systems, and when it makes it again."""

from __future__ import annotations

import contextlib
import importlib.util
import re
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def loaded(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module, with the files beside it."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    spec = importlib.util.spec_from_file_location("setup_script", ROOT / "scripts" / "setup.py")
    assert spec and spec.loader
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, in a folder of its own with the two files, and with what it would run noted in `ran`. Nothing is
    known of what pip would install."""
    made = loaded(monkeypatch)
    monkeypatch.setattr(made.planned_install, "renewed_pip", lambda python: False)
    for name in made.KEYED_ON:
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    ran: list[list[str]] = []

    def call(command: list[str], cwd: Path) -> int:
        ran.append(list(command))
        if command[1:3] == ["-m", "venv"]:
            made.program(Path(command[3]), "python").parent.mkdir(parents=True, exist_ok=True)
            for name in ("python", "pip"):
                made.program(Path(command[3]), name).touch()
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
    assert (constraint, editable) == (str(tmp_path / "constraints.txt"), f"{tmp_path}[lab]")
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
    assert tests[-3:] == ["--run", "first", "tests"] and "--nbval-lax" in notebooks
    assert notebooks[-2:] == list(setup.FIRST_NOTEBOOKS)
    assert all(command[command.index("--maxprocesses") + 1] == "2" for command in (tests, notebooks))


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"other"])
def test_a_stamp_that_cannot_be_read_says_nothing(setup: ModuleType, tmp_path: Path, content: bytes) -> None:
    setup.main(["install"])
    stamp = tmp_path / ".venv" / setup.STAMP
    whole = stamp.read_bytes()
    stamp.write_bytes(content)
    setup.ran.clear()
    assert setup.main(["install"]) == 0 and len(setup.ran) == 1 and stamp.read_bytes() == whole


def test_an_environment_without_pip_is_made_again(setup: ModuleType, tmp_path: Path) -> None:
    setup.main(["install"])
    setup.program(tmp_path / ".venv", "pip").unlink()
    setup.ran.clear()
    setup.main(["install"])
    assert [command[2] for command in setup.ran] == ["venv", "pip"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["test", "--workers", "0"], "'0' is no number of processes; expected 1 or more"),
        (["test", "--workers", "-1"], "'-1' is no number of processes"),
        (["test-all", "--workers", "many"], "'many' is no number of processes"),
        (["lab", "--port", "99999"], "'99999' is no port; expected a whole number, 0 to 65,535"),
    ],
)
def test_wrong_values_are_told_before_anything_is_installed(
    setup: ModuleType, capsys: pytest.CaptureFixture[str], given: list[str], told: str
) -> None:
    with pytest.raises(SystemExit):
        setup.main(given)
    assert told in capsys.readouterr().err and not setup.ran


def test_a_file_is_no_environment(setup: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(SystemExit, match="taken is a file; name a folder"):
        setup.main(["install", "--venv", "taken"])


def test_who_lacks_packages_is_told_what_to_do(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    setup.main(["install", "lab"])
    monkeypatch.setattr(setup.subprocess, "call", lambda command, cwd: 1)
    with pytest.raises(SystemExit):
        setup.main(["lab"])
    assert "if packages are missing" in capsys.readouterr().out


def test_the_two_runs_of_the_tests_are_all_of_them(setup: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "ROOT", ROOT)
    _, tests, notebooks = setup.commands(setup.parsed(["test-all"]), Path("v"))
    assert "--run" not in tests and notebooks[-1] == "notebooks"
    _, tests, notebooks = setup.commands(setup.parsed(["test-all", "--rest"]), Path("v"))
    assert tests[-3:] == ["--run", "rest", "tests"]
    others = [name for name in notebooks if name.endswith(".ipynb")]
    assert {*others, *setup.FIRST_NOTEBOOKS} == {
        f"notebooks/{path.name}" for path in (ROOT / "notebooks").glob("*.ipynb")
    }
    assert not {*others} & {*setup.FIRST_NOTEBOOKS}


def test_all_is_run_where_a_program_cannot_take_the_place_of_another(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "install", lambda venv, extras: None)
    monkeypatch.setattr(setup, "SYSTEM", "nt")
    assert setup.main(["test-all"]) == 0
    assert [command[-1] for command in setup.ran] == ["compile", "tests", "notebooks"]
    assert all(command[0].endswith(".exe") for command in setup.ran)


def test_each_command_installs_what_it_needs(
    setup: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where the commands go, and the test comes back from
    for command, extras in (("lab", "lab"), ("test", "test")):
        venv = tmp_path / command
        with contextlib.suppress(OSError):  # the last command, whose program is not there
            setup.main([command, "--venv", str(venv)])
        assert setup.ran[1][-1] == f"{tmp_path}[{extras}]"
        setup.ran.clear()


def test_an_extra_brings_those_that_it_includes(setup: ModuleType) -> None:
    assert setup.included(["lab"]) == {"lab"}
    assert setup.included(["test"]) == {"test", "lab", "models"} and setup.included(["check"]) >= {"check", "lab"}
    torch, *others = setup.requirements(["lab"])
    names = [re.split(r"\W", each)[0] for each in others]
    assert torch.startswith("torch>=") and "jupyterlab" in names and not {"pytest", "transformers", "ruff"} & {*names}
    with pytest.raises(SystemExit, match=r"there is no extra labs; pyproject\.toml has lab, models, test, check"):
        setup.included(["labs"])


def test_it_uses_the_standard_library_alone_and_make_calls_it() -> None:
    beside = {"planned_install", "torch_build"}
    for name in ("setup", *beside):
        text = (ROOT / "scripts" / f"{name}.py").read_text(encoding="utf-8")
        imported = set(re.findall(r"^(?:import|from) (\w+)", text, re.MULTILINE)) - {"__future__"}
        assert imported - beside <= sys.stdlib_module_names
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in ("install", "lab", "test", "test-all", "front"):
        assert f"scripts/setup.py {command} --venv $(VENV)" in makefile
    assert "pip install" not in makefile and "--nbval-lax" not in makefile
