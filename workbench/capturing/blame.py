"""Errors of Dynamo and export about a user's function, as errors of the workbench that name the user's line."""

from __future__ import annotations

import contextlib
import re
import traceback
from collections.abc import Generator
from typing import cast

import torch

from workbench.capturing.graph_breaks import faked, gradients_in, in_words, lines, quiet, reshaped_in
from workbench.ground import errors
from workbench.ground.environment.call_sites import is_torchs, place_text
from workbench.ground.environment.this_thread import Filter, warnings_here
from workbench.ground.torch_inside.dynamo_reading import exc as dynamo_errors
from workbench.ground.torch_inside.fake_tensors import UnsupportedOperatorException
from workbench.ground.torch_inside.functorch_layers import transforms_file
from workbench.ground.torch_inside.symbolic_tracing import GuardOnDataDependentSymNode
from workbench.operators.aten import overload_names
from workbench.operators.aten.overload_schema import schema_of

_ASSIGNED = r"The tensor attributes? (?=.*self\.(?![\w.]*\b_flat_weights\[)).* assigned during export"
"""Export's warning about a tensor attribute that it will leave out of the graph.

A recurrent module also lists its parameters in `_flat_weights`. During export the module puts stand-ins into that list,
so the pattern leaves it out.
"""

_FILTERS = (
    Filter("ignore", UserWarning, "The tensor attributes? .*_flat_weights"),
    Filter("ignore", UserWarning, "Dynamo does not know how to trace"),
    Filter("error", UserWarning, _ASSIGNED),
)

_ON_ANOTHER_DEVICE = (
    ". A model on the meta device has shapes and no numbers: give it inputs on that device too, or move it to the CPU "
    "by model.to_empty(device='cpu') and load its weights"
)


@contextlib.contextmanager
def user_errors(name: str) -> Generator[None]:
    """Translates PyTorch's exceptions raised inside. The user's own exceptions pass unchanged, unless PyTorch wraps
    them."""
    try:
        with quiet(), warnings_here(*_FILTERS), _torchs_own_errors(name):
            yield
    except (dynamo_errors.Unsupported, dynamo_errors.UserError, GuardOnDataDependentSymNode) as error:
        if _context(error).startswith("KeyboardInterrupt("):  # raised by a line of the user's
            raise KeyboardInterrupt from None
        raise _blamed(name, error).instead_of(error) from None
    except dynamo_errors.InternalTorchDynamoError as error:
        raise errors.CaptureFailed(_dynamos_own(name, error)).instead_of(error) from None
    except dynamo_errors.TorchRuntimeError as error:
        what = faked(str(error)) or in_words(str(error))
        raise raised(name, what, raised_at(error)).instead_of(error) from None
    except (AssertionError, IndexError, KeyError) as error:
        if not is_of_torch(error):
            raise
        what = str(error).strip().partition("\n")[0]
        raise errors.CaptureFailed(
            f"{name} cannot be captured: PyTorch's own export failed with {type(error).__name__}: {what}. Remove "
            "unusual operations, such as in-place changes of inputs that share memory, or tensors reshaped in "
            "place"
        ).instead_of(error) from None
    except UserWarning as warning:
        if not re.match(_ASSIGNED, str(warning)):
            raise
        attributes = str(warning).removeprefix("The tensor ").split(" assigned")[0].rsplit(" ", 1)[0]
        raise replaced(name, re.sub(r"attributes? |self\.\w+\.", "", attributes)) from None


@contextlib.contextmanager
def exports_errors(name: str) -> Generator[None]:
    """Translates exceptions from exporting a graph of PyTorch's own, in which no code of the user's runs."""
    try:
        yield
    except errors.WorkbenchError:
        raise
    except RuntimeError as error:
        what = str(error).strip().partition("\n")[0]
        place = place_text(str(error))
        raise errors.CaptureFailed(
            f"{name} cannot be captured: PyTorch's own export failed{f' at {place}' if place else ''} with "
            f"{type(error).__name__}: {what}. Write that call in another way"
        ).instead_of(error) from None


def _at(place: str) -> str:
    return f", at {place}" if place else ""


def raised(name: str, what: str, place: str) -> errors.CaptureFailed:
    """Returns the error of a function in whose capture `what` was raised, with advice if the cause is known."""
    advice = _ON_ANOTHER_DEVICE if "to be on the same device" in what else ""
    return errors.CaptureFailed(f"{name} raised while it was captured: {what.rstrip('.!')}{_at(place)}{advice}")


def is_of_torch(error: BaseException) -> bool:
    """True if the error was raised inside PyTorch, and not by the user's code."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and is_torchs(frames[-1].filename)


@contextlib.contextmanager
def _torchs_own_errors(name: str) -> Generator[None]:
    """Distinguishes PyTorch's plain RuntimeErrors that have a meaning here from all others."""
    try:
        yield
    except (RuntimeError, AttributeError) as error:  # or a subclass of theirs, depending on how the op was defined
        if call := _takes_gradients(error):
            raise errors.GradientsInside(name, call, raised_at(error)).instead_of(error) from None
        if re.match(r"Constant \w+ is mutated", str(error)):
            raise errors.CaptureFailed(
                f"{name} changes a closed-over tensor in place, which export cannot record: use "
                "capture='dynamo', or make the tensor a buffer of a module (register_buffer)"
            ).instead_of(error) from None
        if "Cannot copy out of meta tensor" in str(error):  # results of a graph have no numbers while it is captured
            raise errors.GraphBreak(name, "Python that reads the numbers of a result", raised_at(error)) from None
        if op := _without_fake(error):
            raise errors.MissingFake(_fake_text(name, op, _at(raised_at(error)))).instead_of(error) from None
        raise


def _takes_gradients(error: BaseException) -> str:
    """The call of autograd, or the transform, in which the error was raised; empty for other errors."""
    frames = traceback.extract_tb(error.__traceback__)
    for each in frames:
        if each.filename == torch.autograd.__file__:
            return f"torch.autograd.{each.name}"
        if each.filename == transforms_file():
            return "torch.func.jvp" if "jvp" in each.name else "torch.func.grad"
    return ""


_FAKELESS = (
    re.compile(r"no fake impl registered for <CustomOpDef\(([\w:.]+)\)>"),
    re.compile(r"([\w:.]+): attempted to run this operator with Meta tensors"),
)


def _without_fake(error: BaseException) -> str:
    """The op, as `namespace::name`, that has no fake according to an exception or one of its causes; else empty."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        if isinstance(link, UnsupportedOperatorException):
            return "::".join(str(link).split()[0].split(".")[:2])
        for pattern in _FAKELESS:
            if found := pattern.search(str(link)):
                return found.group(1)
        link = link.__cause__ or link.__context__
    return ""


def _fake_text(name: str, op: str, where: str) -> str:
    schema = schema_of(overload_names.overloads(op)[0])
    arguments = [argument.name for argument in schema.arguments]
    tensor = next((each.name for each in schema.arguments if "Tensor" in str(each.type)), "...")
    return (
        f"{name} calls {op}{where}, which has no fake. Capture works without data, and only a fake gives the "
        "result's shape and type without computing it. Write one beside the op:\n\n    "
        f'@torch.library.register_fake("{op}")\n    def _({", ".join(arguments)}):\n        return '
        f"torch.empty_like({tensor})    # a tensor of the result's shape and type; its numbers do not matter"
    )


def _blamed(name: str, error: Exception) -> errors.WorkbenchError:
    if getattr(error, "gb_type", "") == "Observed exception":
        return raised(name, _context(error), raised_at(error))
    said, place = str(error).strip(), raised_at(error)
    if call := gradients_in(said):
        return errors.GradientsInside(name, call, place)
    if call := reshaped_in(said):
        return errors.ReshapedInput.by(name, call, place)
    return errors.GraphBreak(name, in_words(said) or type(error).__name__, place)


def _dynamos_own(name: str, error: Exception) -> str:
    """Says why Dynamo itself failed: calls nested too deeply, or a fault in Dynamo."""
    said, where = str(error).strip().partition("\n")[0], _at(place_text(str(error)))
    if said.startswith("RecursionError"):
        return f"{name} calls itself without an end, or too often for Python{where}. End it earlier, or loop"
    return f"{name} cannot be captured: PyTorch's own Dynamo failed with {said}{where}. Write that line in another way"


def replaced(name: str, what: str, advice: str = "") -> errors.HiddenState:
    return errors.HiddenState(name, f"an object that it holds ({what})", advice)


def _context(error: Exception) -> str:
    """The exception that the user's code raised, as Dynamo reports it: `ValueError('bad shape')`."""
    return next((line.removeprefix("raised exception ") for line in lines(str(error), "Developer debug context:")), "")


def raised_at(error: BaseException) -> str:
    """The user's line at which PyTorch raised an error; empty if none is known."""
    stack = cast("traceback.StackSummary | None", getattr(error, "real_stack", None))
    frames = stack or traceback.extract_tb(error.__traceback__)
    return place_text("".join(f'File "{frame.filename}", line {frame.lineno}, in \n' for frame in frames))
