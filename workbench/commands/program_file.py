"""The file of `workbench trace`: the function or model in it and its inputs; and the flags of the command's options."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast

from simulator.files.versioned_files import check_folder
from workbench.ground.errors import BadOption, ProgramFileError
from workbench.stages.options import OPTIONS, SECONDS

_PAGES: Final = (".html", ".htm")

INPUTS_FORMS: Final = "a tuple, a dict of keyword arguments, (tuple, dict), or a function giving one of these"


@dataclass(frozen=True)
class ProgramFile:
    """The function and inputs of a file."""

    model: Callable[..., object]
    inputs: tuple[object, ...]
    kwargs: dict[str, object]


def load_program(given: str, default: str = "model") -> ProgramFile:
    """Runs the file of `FILE[:NAME]` and takes `NAME` and `inputs` from it."""
    path, name = _split(given, default)
    module = _run(path)
    for needed in (name, "inputs"):
        if not hasattr(module, needed):
            raise ProgramFileError(f"{path} does not define {needed!r}; it must define {name!r} and 'inputs'")
    model: object = getattr(module, name)
    inputs: object = getattr(module, "inputs")  # noqa: B009
    if not callable(model):
        raise ProgramFileError(f"{name!r} in {path} is a {type(model).__name__}; expected a function or an nn.Module")
    positional, keywords = _inputs(inputs() if callable(inputs) else inputs, path)
    return ProgramFile(model, positional, keywords)


def _split(given: str, default: str) -> tuple[Path, str]:
    file, colon, name = given.rpartition(":")
    if not colon or not name.isidentifier() or Path(given).exists():
        file, name = given, default
    path = Path(file)
    if not path.is_file():
        raise ProgramFileError(f"there is no file {file!r}; expected FILE or FILE:NAME")
    return path, name


def _run(path: Path) -> ModuleType:
    name = f"workbench_program_{path.stem}"  # a name of its own: the user's file may be called like a package
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ProgramFileError(f"{path} is no Python file")
    try:  # before it runs, so that the user's code has no traceback
        compile(path.read_bytes(), path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:  # null bytes are a ValueError until Python 3.11.3
        raise ProgramFileError(f"{path} is not valid Python: {_where(error)}") from None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except SystemExit as ended:
        raise ProgramFileError(
            f"{path} ends itself while it runs: {_ended(ended)}. The file is run for what it defines; put what is for "
            'the command line below `if __name__ == "__main__":`'
        ) from None
    except Exception:  # the message is the traceback of the user's own code
        raise ProgramFileError(f"{path} failed while it ran:\n{traceback.format_exc()}") from None
    return module


def _ended(ended: SystemExit) -> str:
    """The call that ended a program, with its line."""
    places = [frame.lineno for frame in traceback.extract_tb(ended.__traceback__)]
    return f"SystemExit({ended.code!r}) at line {places[-1]}"


def _where(error: SyntaxError | ValueError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not {error.encoding}: {error.reason}"
    if not isinstance(error, SyntaxError):
        return str(error)
    if error.lineno is None:  # the error is about the file as a whole
        return error.msg
    return f"line {error.lineno}: {error.msg}: {(error.text or '').strip()}"


def _inputs(given: object, path: Path) -> tuple[tuple[object, ...], dict[str, object]]:
    if isinstance(given, dict):
        return (), cast("dict[str, object]", given)
    if isinstance(given, tuple):
        parts = cast("tuple[object, ...]", given)
        if len(parts) == 2 and isinstance(parts[0], tuple) and isinstance(parts[1], dict):
            return cast("tuple[object, ...]", parts[0]), cast("dict[str, object]", parts[1])
        return parts, {}
    raise ProgramFileError(f"'inputs' in {path} is a {type(given).__name__}; expected {INPUTS_FORMS}")


def add_options(trace: argparse.ArgumentParser) -> None:
    """Adds a flag for each option of `wb.trace` that a command line can give; without the flag the verb's default
    holds."""
    for name, option in OPTIONS.items():
        kind, one_of = float if option.flag == SECONDS else str, option.flag.split("|")
        shown: dict[str, Any] = {"choices": one_of} if len(one_of) > 1 else {"metavar": option.flag, "type": kind}
        if option.flag:
            trace.add_argument(f"--{name.replace('_', '-')}", **shown, help=option.doc, default=argparse.SUPPRESS)


def check_page_path(option: str, page: Path) -> None:
    """Raises an error, before the work, if the page cannot be written after it, or if its name does not end like a
    page's."""
    check_folder(page)
    if page.suffix.lower() not in _PAGES:
        raise BadOption(
            f"{option} {page}: the command writes a page, whose name must end in {' or '.join(_PAGES)}. "
            "Python writes other files: j.save('FILE.journey'), j.to_perfetto('FILE.json')"
        )
