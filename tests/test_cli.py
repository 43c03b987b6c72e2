"""The command line: what it prints, and its exit codes."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from workbench.commands import cli
from workbench.commands.program_file import load_program
from workbench.ground.errors import ProgramFileError

ADD = """
import torch

torch.manual_seed(0)


def model(x, y):
    return torch.relu(x + y)


class Twice(torch.nn.Module):
    def forward(self, x, *, by):
        return x * by


twice = Twice()
x = torch.randn(37, 50)
"""


def write(folder: Path, text: str) -> str:
    path = folder / "program.py"
    path.write_text(text, encoding="utf-8")
    return str(path)


def printed(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    return json.loads(capsys.readouterr().out)


Refused = Callable[..., str]


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Refused:
    """Runs a command that has to end as a person's mistake does, without output; returns its text on stderr."""

    def run(*arguments: str) -> str:
        assert cli.main([*arguments]) == cli.USER_ERROR
        told = capsys.readouterr()
        assert told.out == ""
        return told.err

    return run


def test_trace_prints_one_object_with_the_whole_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = write(tmp_path, ADD + "inputs = (x, torch.randn(50))\n")
    assert cli.main(["trace", file, "--machine", "edge-8x8"]) == cli.OK
    result = printed(capsys)
    assert list(result) == ["cycles", "time_us", "machine", "kernels", "routes", "check", "seconds"]
    assert result["machine"] == "edge-8x8"
    assert result["routes"] == {"automatic": 2}
    assert result["check"]["ok"] is True and result["check"]["max_abs"] < 1e-6
    (kernel,) = result["kernels"]
    assert kernel["ops"] == ["aten.add.Tensor", "aten.relu.default"]
    assert kernel["route"] == "automatic"
    assert 0 < kernel["cycles"] <= result["cycles"]
    assert result["time_us"] == pytest.approx(result["cycles"] / 800)
    assert list(result["seconds"]) == ["capture", "lower", "render", "schedule", "plan", "simulate"]


def test_trace_says_how_the_kernels_add_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert cli.main(["trace", write(tmp_path, ADD + "inputs = (x, x)\n")]) == cli.OK
    told = capsys.readouterr()
    result = json.loads(told.out)
    (kernel,), whole = result["kernels"], result["cycles"]
    assert whole > kernel["cycles"]
    assert f"kernels {kernel['cycles']:,} + launches {whole - kernel['cycles']:,} = {whole:,} cycles\n" in told.err


@pytest.mark.parametrize("capture", ["dynamo", "export"])
@pytest.mark.parametrize(
    ("body", "words"),
    [("x @ x", "RuntimeError: a and b must have same reduction dim"), ("{}[x.ndim]", "KeyError"), ("x.foo", "'foo'")],
)
def test_what_the_program_raises_is_told_in_a_line(
    capture: str, body: str, words: str, tmp_path: Path, refused: Refused
):
    file = write(tmp_path, ADD + f"\n\ndef wrong(x):\n    return {body}\n\n\ninputs = (x,)\n")
    line = Path(file).read_text().splitlines().index(f"    return {body}") + 1
    told = refused("trace", f"{file}:wrong", "--capture", capture).strip()
    assert told.startswith("workbench: ") and told.count("\n") == 0
    assert words in told and told.endswith(f", at {file}:{line}")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["trace", "x.py", "--mach", "tpu-v3"],
            "workbench trace: error: there is no option '--mach'; did you mean '--machine'?",
        ),
        (
            ["trace", "x.py", "--machin=tpu-v3"],
            "there is no option '--machin'; did you mean '--machine'? See workbench",
        ),
        (["trace", "--jsno", "-", "x.py"], "there is no option '--jsno'; did you mean '--json'?"),
        (["doctor", "--js"], "workbench doctor: error: there is no option '--js'; did you mean '--json'?"),
        (["new-op", "aten::frac", "--temp"], "there is no option '--temp'; did you mean '--template'?"),
        (["ops", "--dialekt", "math"], "there is no option '--dialekt'. See workbench ops -h"),
        (["--vers", "doctor"], "there is no option '--vers'"),
        (["lab", "--port", "\uff14\uff14\uff14"], "is no port; expected a whole number, 0 to 65,535"),
        (["lab", "--port", "65536"], "'65536' is no port"),
        (["ops", "aten.add", "aten.mul"], "workbench ops: error: too many arguments: aten.mul"),
    ],
)
def test_options_are_written_out_and_an_unknown_one_says_what_was_meant(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == cli.USER_ERROR
    assert words in capsys.readouterr().err


def test_trace_writes_a_file_and_takes_a_module_by_name_with_keywords(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = write(tmp_path, ADD + "def inputs():\n    return (x,), {'by': torch.randn(50)}\n")
    out = tmp_path / "result.json"
    assert cli.main(["trace", f"{file}:twice", "--json", str(out)]) == cli.OK
    assert capsys.readouterr().out == ""
    assert json.loads(out.read_text())["check"]["ok"] is True


def test_a_failing_check_exits_with_one_and_non_finite_numbers_are_null(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    import torch

    from workbench.checking import wide_reference

    honest = wide_reference.outcome

    def off_by_infinity(*args: Any) -> list[torch.Tensor]:
        return [torch.full_like(each, torch.inf) for each in honest(*args)]

    monkeypatch.setattr(wide_reference, "outcome", off_by_infinity)
    file = write(tmp_path, ADD + "inputs = (x, torch.randn(50))\n")
    assert cli.main(["trace", file]) == cli.CHECK_FAILED
    assert printed(capsys)["check"] == {"ok": False, "max_abs": None, "max_rel": None}


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        ("", "does not define 'inputs'"),
        ("inputs = 3\n", "'inputs' in"),
        ("inputs = (x,)\nmodel = 3\n", "expected a function or an nn.Module"),
        ("1 / 0\n", "ZeroDivisionError"),
        ("inputs = (x, torch.randn(51))\n", "broadcast"),
    ],
    ids=["no inputs", "wrong inputs", "no callable", "file fails", "shapes do not fit"],
)
def test_mistakes_in_the_file_exit_with_two(tail: str, message: str, tmp_path: Path, refused: Refused):
    assert message in refused("trace", write(tmp_path, ADD + tail))


def test_a_missing_file_and_an_unknown_machine_exit_with_two(tmp_path: Path, refused: Refused):
    assert "there is no file" in refused("trace", str(tmp_path / "nothing.py"))
    file = write(tmp_path, ADD + "inputs = (x, x)\n")
    assert "did you mean 'tpu-v3'" in refused("trace", file, "--machine", "tpu-v33")


def test_a_dict_gives_keyword_arguments(tmp_path: Path):
    program = load_program(write(tmp_path, ADD + "inputs = {'x': x, 'y': x}\n"))
    assert program.inputs == () and sorted(program.kwargs) == ["x", "y"]


def test_a_pair_of_tuple_and_dict_gives_both_and_a_plain_pair_two_inputs(tmp_path: Path):
    both = load_program(write(tmp_path, ADD + "inputs = ((x,), {'y': x})\n"))
    assert (len(both.inputs), sorted(both.kwargs)) == (1, ["y"])
    plain = load_program(write(tmp_path, ADD + "inputs = (x, x)\n"))
    assert (len(plain.inputs), plain.kwargs) == (2, {})


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"import (", "is not valid Python: line 1: "),
        (b"x = '\xff'", "is not valid Python: "),
        ("x = 1".encode("utf-16"), "is not valid Python: source code string cannot contain null bytes"),
    ],
)
def test_what_is_no_python_is_told_with_its_line_alone(content: bytes, words: str, tmp_path: Path):
    path = tmp_path / "mine.py"
    path.write_bytes(content)
    with pytest.raises(ProgramFileError) as caught:
        load_program(str(path))
    assert words in str(caught.value) and "Traceback" not in str(caught.value) and "None" not in str(caught.value)


def test_a_byte_order_mark_is_no_part_of_the_program(tmp_path: Path):
    path = tmp_path / "mine.py"
    path.write_text(ADD + "inputs = (x, x)\n", encoding="utf-8-sig")
    assert len(load_program(str(path)).inputs) == 2


def test_a_list_of_inputs_is_refused_with_what_is_expected(tmp_path: Path):
    with pytest.raises(ProgramFileError, match="is a list; expected a tuple, a dict of keyword arguments"):
        load_program(write(tmp_path, ADD + "inputs = [x]\n"))


def test_the_list_tells_of_chiplets_where_a_machine_has_some(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    machine = tmp_path / "two.toml"
    twice = 'count = 2\nassumed = ["count"]\n'
    machine.write_text(f'version = 1\nbase = "tpu-v3"\n[core]\n{twice}[chiplet]\n{twice}')
    assert cli.main(["machines", str(machine)]) == cli.OK
    head, *rows = capsys.readouterr().out.splitlines()
    cells = {row.split()[0]: row[head.index("cores") :].split()[:2] for row in rows}
    assert cells["two"] == ["2", "2"] and cells["tpu-v3"] == ["1", "1"]


def test_a_shipped_machine_is_shown_with_the_source_of_each_figure(
    capsys: pytest.CaptureFixture[str], refused: Refused
):
    assert cli.main(["machines", "tpu-v3"]) == cli.OK
    told = {row.split()[0]: " ".join(row.split()[1:]) for row in capsys.readouterr().out.splitlines()}
    assert set(told) == {"tpu-v3", "figure", *wb.machine("tpu-v3").figures()} - {"name"}
    assert told["clock_mhz"] == "940 public" and told["systolic_selection"] == "earliest assumed"
    assert told["launch_overhead_cycles"].startswith(
        "258 public: 0.4 us of a kernel on a TPU v4 whose data is in the common memory"
    )
    assert "there is no machine 'tpu3'; did you mean 'tpu-v3'?" in refused("machines", "tpu3")


def test_a_command_that_is_not_there_suggests_one_that_is(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        cli.main(["machnes"])
    told = capsys.readouterr().err
    assert ended.value.code == cli.USER_ERROR
    assert "there is no command 'machnes'; did you mean 'machines'? Its commands are trace, models, machines," in told


def test_a_machine_of_a_file_is_listed_and_traced_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    machine = tmp_path / "pocket.toml"
    machine.write_text('version = 1\nbase = "edge-8x8"\n[dma]\nqueues = 1\nassumed = ["queues"]\n')
    assert cli.main(["machines", str(machine)]) == cli.OK
    listed = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in listed] == ["machine", *wb.machines(), "pocket"]
    assert "common_mib" in listed[0] and "chiplets" not in listed[0]
    file = write(tmp_path, ADD + "inputs = (x, x)\n")
    assert cli.main(["trace", file, "--machine", str(machine)]) == cli.OK
    assert printed(capsys)["machine"] == "pocket"


RECORDED = Path(__file__).resolve().parent.parent / "notebooks" / "recorded" / "softmax.journey"


def test_open_writes_a_page_and_shows_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    shown = list[str]()
    monkeypatch.setattr(cli.webbrowser, "open", shown.append)
    page = tmp_path / "page.html"
    assert cli.main(["open", str(RECORDED), "--to", str(page)]) == cli.OK
    assert capsys.readouterr().out == f"{page}\n" and shown == [page.as_uri()]
    assert cli.main(["open", str(RECORDED)]) == cli.OK
    elsewhere = Path(capsys.readouterr().out.strip())
    assert elsewhere.name == "softmax.html" and shown[1:] == [elsewhere.as_uri()]
    assert elsewhere.read_bytes() == page.read_bytes() and b'id="record"' in page.read_bytes()
    elsewhere.unlink()
    elsewhere.parent.rmdir()


def test_open_says_what_is_wrong_with_a_file_and_writes_nothing(
    tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cli.webbrowser, "open", pytest.fail)
    cut, foreign, page = tmp_path / "cut.journey", tmp_path / "foreign.journey", tmp_path / "page.html"
    cut.write_bytes(RECORDED.read_bytes()[:9000])
    foreign.write_text("hello")
    for given, said in (
        ([str(cut)], "is a journey that ends after 9,000 bytes"),
        ([str(foreign)], "is not a journey: it is no zip file"),
        ([str(tmp_path / "none.journey")], "there is no file"),
        ([str(RECORDED), "--to", str(tmp_path / "no" / "page.html")], "there is no folder"),
        ([str(RECORDED), "--to", str(tmp_path / "out.txt")], "whose name must end in .html or .htm"),
        ([str(RECORDED), "--to", str(tmp_path / "out")], "whose name must end in .html or .htm"),
    ):
        assert said in refused("open", "--to", str(page), *given) and not page.exists()
    assert sorted(tmp_path.iterdir()) == [cut, foreign]


def test_a_full_disk_is_told_in_a_line(tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    import torch

    file, saved = write(tmp_path, ADD + "inputs = (x, x)\n"), tmp_path / "add.journey"
    wb.trace(torch.relu, torch.ones(4)).save(saved)
    before = set(tmp_path.iterdir())
    monkeypatch.setattr(os, "fsync", full)
    for arguments in (
        ["trace", file, "--json", str(tmp_path / "told.json")],
        ["open", str(saved), "--to", str(tmp_path / "page.html"), "--no-browser"],
        ["new-op", "demo::thing", "--out", str(tmp_path)],
    ):
        told = refused(*arguments).splitlines()[-1]
        assert told.startswith("workbench: ") and told.endswith(" cannot be written: No space left on device")
    assert {each for each in tmp_path.iterdir() if each.is_file()} == {each for each in before if each.is_file()}


def in_a_process(arguments: list[str], **how: Any) -> tuple[int, str]:
    """Exit code and what is on stderr; the rest of `how` goes to `subprocess.run`."""
    command, root = [sys.executable, "-m", "workbench.commands.cli", *arguments], Path(__file__).parents[1]
    usual = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(command, cwd=root, env=usual, stderr=subprocess.PIPE, text=True, **how)
    return done.returncode, done.stderr


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("arguments", [["machines"], ["--help"], ["machines", "tpu-v3"]])
def test_when_nobody_reads_any_more_it_ends_quietly(arguments: list[str]):
    reads, writes = os.pipe()
    os.close(reads)
    try:
        assert in_a_process(arguments, stdout=writes) == (cli.NO_READER, "")
    finally:
        os.close(writes)


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("arguments", [["machines"], ["--help"]])
def test_a_full_disk_under_what_is_printed_is_told_in_a_line(tmp_path: Path, arguments: list[str]):
    resource = pytest.importorskip("resource", reason="limits how long a file may become")
    with (tmp_path / "out").open("wb") as out:
        code, told = in_a_process(
            arguments, stdout=out, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
        )
    assert (code, told) == (cli.USER_ERROR, "workbench: the result cannot be written: File too large\n")


def test_an_error_of_the_system_that_is_not_about_room_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch):
    def fail(_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(cli, "_machines", fail)
    with pytest.raises(OSError, match="Input/output error"):
        cli.main(["machines"])


def test_ctrl_c_ends_it_quietly(tmp_path: Path):
    # A suite that runs in the background passes on that nobody listens to it.
    listens = "import os, signal, time\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    program = write(tmp_path, listens + "os.kill(os.getpid(), signal.SIGINT)\ntime.sleep(20)\n")
    assert in_a_process(["trace", program]) == (cli.INTERRUPTED, "")


@pytest.mark.test_all
def test_a_step_of_training_is_traced(tmp_path: Path, capsys: pytest.CaptureFixture[str], refused: Refused):
    text = """
import torch

model = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
inputs = (torch.ones(2, 4),)

def step(x):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
"""
    file = write(tmp_path, text)
    for given in (f"{file}:step", f"{file}"):  # a step is what --train traces
        assert cli.main(["trace", given, "--train", "--machine", "edge-8x8"]) == 0
        result: Any = printed(capsys)
        assert result["check"]["ok"] and sum(result["parts"].values()) == result["cycles"]
        assert list(result["parts"]) == ["forward", "backward", "step"]
    assert "workbench trace --train" in refused("trace", f"{file}:step")
    assert "takes no gradients" in refused("trace", f"{file}:model", "--train")
    assert "mlp has no step" in refused("trace", "--model", "mlp", "--train")


def test_a_program_that_ends_itself_is_told_with_its_line(tmp_path: Path, refused: Refused):
    file = write(tmp_path, ADD + "raise SystemExit(3)\n")
    line = Path(file).read_text().splitlines().index("raise SystemExit(3)") + 1
    assert f"ends itself while it runs: SystemExit(3) at line {line}" in refused("trace", file)


def test_trace_writes_the_journey_and_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = write(tmp_path, ADD + "inputs = (x, torch.randn(50))\n")
    saved, page = tmp_path / "made.journey", tmp_path / "made.html"
    assert cli.main(["trace", file, "--save", str(saved), "--html", str(page)]) == cli.OK
    cycles = printed(capsys)["cycles"]
    assert wb.load(saved).simulated.cycles == cycles and f"{cycles:,}" in page.read_text()


@pytest.mark.parametrize(
    ("option", "name", "words"),
    [("--save", "no/where.journey", "where.journey"), ("--html", "page.pdf", "must end in .html")],
)
def test_trace_refuses_what_it_cannot_write_before_the_work(
    option: str, name: str, words: str, tmp_path: Path, refused: Refused
):
    assert words in refused("trace", "nothing.py", option, str(tmp_path / name))


def test_a_dialect_of_no_builder_is_refused(refused: Refused):
    assert "prefer='zz': no builder is registered in that dialect" in refused("ops", "aten.frac", "--prefer", "zz")
