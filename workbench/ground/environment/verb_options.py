"""Checks of a verb's options: an unknown option is an error that suggests the right one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ParamSpec, TypeVar

from simulator.did_you_mean import did_you_mean, sentences
from simulator.machine.figure_places import figure_names
from workbench.ground.argument_types import STAGES, checker, plain
from workbench.ground.environment import call_sites
from workbench.ground.errors import UnknownOption, WorkbenchError

P = ParamSpec("P")
R = TypeVar("R")


def knows_its_options(verb: Callable[P, R]) -> Callable[P, R]:
    """Decorates a verb, or a method of a handle, to raise `UnknownOption` for an unknown keyword and `BadArgument` for
    an argument that does not match its annotation.

    An error in place of another library's has only the caller's traceback, and an error of the user's code has none of
    PyTorch's frames before it.
    """
    parameters = inspect.signature(verb).parameters.values()
    known = [each.name for each in parameters if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)]
    known = [name for name in known if name != "self"]
    owner, _, name = verb.__qualname__.rpartition(".")
    check = checker(verb)

    @functools.wraps(verb)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for option in kwargs:
            if option not in known:
                called = f"{_called(owner, args)}.{name}"
                raise UnknownOption(_told(called, kwargs, option, known, args[1:] if owner else args))
        given, named = plain(args, kwargs)
        check(given, named)
        try:
            return verb(*given, **named)
        except WorkbenchError as error:
            if error.original is None:
                raise
            raise error.with_traceback(None) from None  # our own frames would explain nothing
        except Exception as error:  # an error of the user's own code
            if isinstance(error.__context__, WorkbenchError):  # the error of an earlier attempt of ours
                error.__context__ = None
            raise error.with_traceback(call_sites.users_frames(error.__traceback__))  # noqa: B904 - it is the same one

    return checked


def _called(owner: str, arguments: Sequence[object]) -> str:
    """The text before a verb's name: `wb`, `j` for a journey, `j.simulated` for a stage, else the name of its class."""
    if owner in ("", "Journey"):
        return "j" if owner else "wb"
    of = type(arguments[0]).__name__
    return f"j.{of.lower()}" if of in STAGES else of


def _told(called: str, given: Mapping[str, object], option: str, known: list[str], arguments: Iterable[object]) -> str:
    text = f"{called} has no option {option!r}{did_you_mean(option, known)}"
    if "names" in known and all(type(each).__name__ == "Journey" for each in given.values()):
        text += f"; names of journeys are an option: {called}(j, k, names={list(given)!r})"
    elif "machine" in known and option in figure_names():
        text += f"; it is a figure of a machine: machine=wb.machine('tpu-v3', {option}=...)"
    elif "kwargs" in known and option in _takes(arguments):
        text += f"; give keyword arguments of the function as kwargs={{{option!r}: ...}}"
    elif "kwargs" in known and called.startswith("j."):
        text += f"; inputs by their names are given as kwargs={{{option!r}: ...}}"
    return sentences(text, f"Its options are {', '.join(known)}" if known else "It takes none")


def _takes(arguments: Iterable[object]) -> set[str]:
    """Parameter names of the first argument, if it can be called: `torch.nn.Module` by its `forward`."""
    target = next(iter(arguments), None)
    target = getattr(target, "forward", target)
    if not callable(target):
        return set()
    try:
        return set(inspect.signature(target).parameters)
    except (TypeError, ValueError):
        return set()
