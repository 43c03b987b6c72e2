"""The journey without a notebook: `workbench trace FILE[:NAME]`, `workbench open FILE`, `workbench lab`.

Exit codes: 0 for success, 1 when a check or the installation fails, 2 for a mistake of the user, 130 after Ctrl-C, and
141 when the reader of the output has gone, as in a shell. Python's manual ends with 1 in the last case, but here 1 is
for a failed check.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import traceback
import webbrowser
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Never, cast

import workbench as wb
from simulator.did_you_mean import did_you_mean, sentences
from simulator.errors import SimulatorError
from simulator.files.versioned_files import check_folder, replace_file
from workbench.commands import doctor, lab_server
from workbench.commands.doctor import diagnosis
from workbench.commands.program_file import INPUTS_FORMS, ProgramFile, add_options, check_page_path, load_program
from workbench.explaining.views.timelines import machine_table, timeline, training_parts
from workbench.ground.basics.table import Table
from workbench.ground.environment import call_sites
from workbench.ground.environment.progress import waiting
from workbench.ground.errors import BadOption, ProgramFileError, WorkbenchError
from workbench.ground.packages import own_name
from workbench.operators.aten import registry
from workbench.stages.options import options_among

if TYPE_CHECKING:
    from workbench.checking.check_report import Check
    from workbench.journey import Journey

OK, CHECK_FAILED, USER_ERROR = 0, 1, 2
INTERRUPTED, NO_READER = 128 + 2, 128 + 13  # SIGINT, SIGPIPE
PROBLEMS = CHECK_FAILED
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    try:
        try:
            return _run_command(argv)
        finally:
            sys.stdout.flush()  # here, where an error of the flush can still be reported
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _print_no_more()
        return NO_READER
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        _print_no_more()
        sys.stderr.write(f"workbench: {error.filename or 'the result'} cannot be written: {error.strerror}\n")
        return USER_ERROR


def _print_no_more() -> None:
    """Discards further output: at its end Python writes the rest, which would fail again and print a traceback."""
    with contextlib.suppress(OSError):  # standard output may have no file
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _run_command(argv: Sequence[str] | None) -> int:
    given = sys.argv[1:] if argv is None else argv
    parser, names = _parser()
    command_name = next((each for each in given if not each.startswith("-")), None)
    if command_name is not None and command_name not in names:
        text = f"there is no command {command_name!r}{did_you_mean(command_name, names)}"
        parser.error(sentences(text, f"Its commands are {', '.join(names)}"))
    options, unknown = parser.parse_known_args(given)
    if unknown:
        _refuse(unknown, options.parser)
    command = cast("Callable[[argparse.Namespace], int]", options.command)
    try:
        return command(options)
    except (WorkbenchError, SimulatorError) as error:
        sys.stderr.write(f"workbench: {error}\n")
        return USER_ERROR


def _refuse(unknown: Sequence[str], parser: argparse.ArgumentParser) -> Never:
    """Ends with an error about the first unknown option, else about the extra arguments."""
    known = re.findall(r"--[\w-]+", parser.format_usage())
    for option in (each.partition("=")[0] for each in unknown if each.startswith("-")):
        parser.error(sentences(f"there is no option {option!r}{did_you_mean(option, known)}", f"See {parser.prog} -h"))
    parser.error(f"too many arguments: {' '.join(unknown)}. See {parser.prog} -h")


def _parser() -> tuple[argparse.ArgumentParser, tuple[str, ...]]:
    """The parser and the names of its commands."""
    parser = argparse.ArgumentParser(
        prog="workbench", description="Walk PyTorch through an NPU compiler and simulator.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"aten-workbench {wb.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    command = partial(_command, commands)

    trace = command("trace", _trace, "take a model to a checked, simulated timeline and print the result")
    defines = f"defines NAME (default: model, or step with --train) and inputs: {INPUTS_FORMS}"
    trace.add_argument("file", nargs="?", metavar="FILE[:NAME]", help=defines)
    trace.add_argument("--model", metavar="NAME", help="an example model, in place of a file; see workbench models")
    sizes = "small or full: the size of the example model (default: small)"
    trace.add_argument("--size", choices=wb.models.SIZES, help=sizes)
    add_options(trace)
    trace.add_argument("--train", action="store_true", help="NAME is a step of training; see docs/training.md")
    trace.add_argument("--save", metavar="FILE.journey", help="write the journey there, for wb.load and workbench open")
    trace.add_argument("--html", metavar="PAGE.html", help="write the journey there as a page to read")
    trace.add_argument("--json", default="-", metavar="PATH", help="where the result goes (default: -, the terminal)")

    command("models", _models, "list the example models that trace --model takes")

    machines = command(
        "machines", _machines, "list the shipped machines and those of files, or show the figures of some"
    )
    figures = "a shipped machine's name shows all its figures, with their sources; a file joins the list"
    machines.add_argument("machines", nargs="*", metavar="NAME|FILE.toml", help=figures)

    opened = command("open", _open, "show a saved journey in the browser, as a page with the lab in it")
    opened.add_argument("file", metavar="FILE.journey", help="what j.save(path) wrote")
    opened.add_argument("--to", metavar="PAGE.html", help="the file of the page (default: in a temporary folder)")
    opened.add_argument("--no-browser", action="store_true", help="write the page and print where it is; open nothing")
    opened.add_argument(
        "--trust", action="store_true", help="let MLIR have the file's own scripts and passes, as they are"
    )

    opens = f"open JupyterLab on the course, which is copied to ./{lab_server.COPY} where it is not here"
    lab = command("lab", _lab, opens)
    lab.add_argument("--port", type=lab_server.port, default=8888, help="the port to listen on (default: 8888)")
    text = "the address to listen on; 0.0.0.0 is all (default: localhost)"
    lab.add_argument("--ip", type=lab_server.address, default="localhost", help=text)
    first = f"the notebook to open first, yours or of the course (default: {lab_server.FIRST})"
    lab.add_argument("--notebook", metavar="FILE", help=first)

    ops = command("ops", _ops, "list the registered operators, or show the route of one")
    ops.add_argument("overload", nargs="?", metavar="OVERLOAD", help="aten.add.Tensor, or aten.add for all of them")
    ops.add_argument("--prefer", metavar="DIALECT", help="the dialect whose builder is used where an op has several")

    command("compile", _compile, "compile the simulator now, so that the first simulation does not wait for it")

    _add_new_op(command("new-op", _new_op, "write the files of a new operator: kernel, test and notebook"))

    health = command("doctor", _doctor, "check the installation, and say how to mend each fault")
    health.add_argument("--json", action="store_true", help="print the findings as one JSON object")
    return parser, tuple(commands.choices)


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],  # pyright: ignore[reportPrivateUsage] - has no other name
    name: str,
    run: Callable[[argparse.Namespace], int],
    help: str,
) -> argparse.ArgumentParser:
    """Adds a command without options. Its options cannot be abbreviated: an abbreviation could mean a later option."""
    parser = commands.add_parser(name, help=help, allow_abbrev=False)
    parser.set_defaults(command=run, parser=parser)
    return parser


def _add_new_op(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("op", metavar="NAMESPACE::OP", help="aten::hardswish, or demo::thing for an op of your own")
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument(
        "--template", dest="way", action="store_const", const="template", default="template",
        help="the whole kernel by hand, its loops, tiles and transfers (the default)",
    )  # fmt: skip
    ways.add_argument(
        "--builder", dest="way", action="store_const", const="builder",
        help="one node's MLIR; loops, tiles and transfers come from the schedule",
    )  # fmt: skip
    parser.add_argument("--out", default=".", metavar="DIR", help="where the files go (default: here)")
    parser.add_argument("--schema", help="the schema of a new op: '(Tensor x, float alpha=1.0) -> Tensor'")
    parser.add_argument(
        "--force", action="store_true", help="write the files also for an op that has a registered kernel"
    )


def _new_op(options: argparse.Namespace) -> int:
    from workbench.operators.new_op import write_files

    made = write_files.new_op(
        options.op, way=options.way, folder=Path(options.out), schema=options.schema, force=options.force
    )
    say = sys.stdout.write
    if not made.facts.defined:
        say(f"{made.facts.qualified} is not defined anywhere: the files define it as {made.facts.schema}\n")
    for who in made.handlers:
        say(f"until the new {made.way} is registered: {who}\n")
    for path in made.paths:
        places = len(re.findall(r"(#|//) fill in", path.read_text(encoding="utf-8")))
        say(f"wrote {path}{f'  ({places} to fill in)' if places else ''}\n")
    tests = [path for path in made.paths if path.name.startswith("test_")]
    say(f"fill in the lines marked `fill in:`, then run: python -m pytest {tests[0]}\n")
    return OK


def _trace(options: argparse.Namespace) -> int:
    for path in {options.json, options.save} - {"-", None}:
        check_folder(path)  # before the work, not after it
    if options.html is not None:
        check_page_path("--html", Path(options.html))
    journey = _traced(_program(options), options)
    check = journey.check()
    result = summary(journey, check)
    if options.train:
        parts = training_parts.by_part(journey.simulated.record, journey.lowered.record)
        result["parts"] = {str(row[0]): row[parts.columns.index("cycles")] for row in parts.rows}
    sys.stderr.write(f"{timeline.sum_text(journey.simulated.record)}\n")
    if options.save is not None:
        journey.save(options.save)
    if options.html is not None:
        journey.to_html(options.html)
    text = json.dumps(result, indent=2, allow_nan=False) + "\n"
    if options.json == "-":
        sys.stdout.write(text)
    else:
        replace_file(options.json, text.encode("utf-8"))
    return OK if check.ok else CHECK_FAILED


def _program(options: argparse.Namespace) -> ProgramFile:
    """The program of a file, or an example model."""
    if (options.file is None) == (options.model is None):
        raise BadOption("workbench trace takes a FILE or --model NAME, one of the two. See workbench trace -h")
    if options.model is None:
        if options.size is not None:
            raise BadOption(f"--size {options.size} is for --model NAME: a file says itself how large its model is")
        return load_program(options.file, "step" if options.train else "model")
    if options.train:
        raise BadOption(f"--train is for FILE.py:step, and {options.model} has no step. See docs/training.md")
    example = wb.models.get(options.model, size=options.size or "small")
    return ProgramFile(example.module, example.inputs, dict(example.kwargs))


def _models(_: argparse.Namespace) -> int:
    sys.stdout.write("\n".join(wb.models.names()) + "\n")
    return OK


def _traced(program: ProgramFile, options: argparse.Namespace) -> Journey:
    """The journey of a program. An exception in the program's code becomes an error without a traceback."""
    try:
        trace = partial(wb.trace, program.model, *program.inputs, kwargs=program.kwargs)
        return trace(train=options.train, **options_among(vars(options)))
    except WorkbenchError:
        raise
    except Exception as error:
        place = call_sites.place_text("".join(traceback.format_tb(error.__traceback__)))
        if not place:
            raise
        text = (
            f"{options.file or options.model} raised while it was captured: {type(error).__name__}: {error}, at {place}"
        )
        raise ProgramFileError(text).instead_of(error) from None


def _open(options: argparse.Namespace) -> int:
    page = Path(options.to) if options.to else None
    if page is not None:
        check_page_path("--to", page)
    journey = wb.load(options.file, trust=options.trust)
    page = page or Path(tempfile.mkdtemp(prefix="workbench-")) / f"{Path(options.file).stem}.html"
    with waiting("write the page"):
        journey.to_html(page, interactive=True)
    sys.stdout.write(f"{page}\n")
    if not options.no_browser:
        webbrowser.open(page.resolve().as_uri())
    return OK


def _machines(options: argparse.Namespace) -> int:
    given = cast("list[str]", options.machines)
    files = [Path(each) for each in given if os.path.isfile(each) or Path(each).suffix == ".toml"]
    named = [wb.machine(each) for each in given if Path(each) not in files]
    texts = [f"{machine.name}\n{machine_table.figures_table(machine).text(widest=90)}" for machine in named]
    if files or not named:
        texts.append(machine_table.machines_table([wb.machine(each) for each in (*wb.machines(), *files)]).text())
    sys.stdout.write("\n\n".join(texts) + "\n")
    return OK


def _ops(options: argparse.Namespace) -> int:
    from workbench.operators.ops import listing

    if options.overload is None:
        text = Table(listing.COLUMNS, listing.rows(registry.DEFAULT.now())).text(widest=60)
    else:
        text = "\n".join(map(str, listing.handlers(options.overload, prefer=options.prefer)))
    sys.stdout.write(text + "\n")
    return OK


def _lab(options: argparse.Namespace) -> int:
    lab_server.check_jupyterlab()
    notebook, text = lab_server.notebook_to_open(options.notebook)
    if text:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    command = lab_server.command(notebook, options.port, options.ip)
    if os.name == "posix":
        os.execve(sys.executable, command, lab_server.lab_environment())
    # elsewhere the shell would not wait for a program that replaces this one
    return subprocess.call(command, env=lab_server.lab_environment())


def _compile(options: argparse.Namespace) -> int:
    folder = importlib.import_module(own_name("simulator.compiled")).cache_folder()
    if not folder.is_dir():  # the import below makes the folder
        sys.stdout.write(f"compiling the simulator into {folder}: about a minute, once\n")
        sys.stdout.flush()
    ahead = importlib.import_module(own_name("simulator.engine.compile_ahead"))
    for ready in ahead.compile_ahead():
        how = "was there" if ready.was_there else f"compiled in {ready.seconds:.0f} s"
        sys.stdout.write(f"  {ready.memory} memory: {how}\n")
        sys.stdout.flush()
    return OK


def _doctor(options: argparse.Namespace) -> int:
    with waiting("look the installation over"):
        found = doctor.examine()
    text = json.dumps(diagnosis.as_json(found), indent=2) if options.json else diagnosis.as_text(found)
    encoding = sys.stdout.encoding or "ascii"
    sys.stdout.write(
        text.encode(encoding, "backslashreplace").decode(encoding) + "\n"
    )  # characters that the terminal lacks are escaped
    return OK if diagnosis.healthy(found) else PROBLEMS


def summary(journey: Journey, check: Check) -> dict[str, object]:
    """The result of a journey as plain data: what `workbench trace` prints."""
    lowered, scheduled, simulated = journey.lowered.record, journey.scheduled.record, journey.simulated
    cycles = simulated.kernel_cycles()
    launches = Counter(launch.kernel for launch in scheduled.launches.launches)
    nodes = {item.node.name: item for item in lowered.nodes}
    kernels = [
        {
            "name": kernel.name,
            "ops": [nodes[name].node.op for name in kernel.nodes],
            "route": nodes[kernel.nodes[0]].route,
            "launches": launches[kernel.name],
            "cycles": cycles[kernel.name],
        }
        for kernel in lowered.kernels
        if kernel.name in launches  # the other kernels are equal to one of these and count among its launches
    ]
    return {
        "cycles": simulated.cycles,
        "time_us": simulated.time_us,
        "machine": journey.machine.name,
        "kernels": kernels,
        "routes": dict(Counter(item.route for item in lowered.nodes)),
        "check": {"ok": check.ok, "max_abs": _finite(check.max_abs), "max_rel": _finite(check.max_rel)},
        "seconds": journey.seconds,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


if __name__ == "__main__":
    sys.exit(main())
