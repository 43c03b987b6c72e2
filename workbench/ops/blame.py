"""What Dynamo and export raise about a user's function, as errors of the workbench that name the user's line."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import traceback
import warnings
from collections.abc import Generator
from typing import cast

import torch
import torch._dynamo.exc as dynamo_exc
from torch._subclasses.fake_tensor import UnsupportedOperatorException
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from workbench import errors
from workbench.ops import names
from workbench.ops.places import place_of
from workbench.ops.schema import schema_of

_ASSIGNED = r"The tensor attributes? .* assigned during export"
"""How export warns of a tensor attribute that it will leave out of the graph."""


@contextlib.contextmanager
def user_errors(name: str) -> Generator[None]:
    """Translates what is raised inside. Exceptions of the user's own that reach us as they are stay as they are."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    was_disabled, log.disabled = log.disabled, True  # it prints a stack for what is raised anyway
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=_ASSIGNED, category=UserWarning)
            with _missing_fakes(name):
                yield
    except (dynamo_exc.Unsupported, dynamo_exc.UserError, GuardOnDataDependentSymNode) as error:
        raise _blamed(name, error) from error
    except dynamo_exc.TorchRuntimeError as error:
        raise errors.CaptureFailed(f"{name} raised while it was captured: {_reason(error)}{_where(error)}") from error
    except (AssertionError, IndexError, KeyError) as error:
        if not _of_torch(error):
            raise
        what = str(error).strip().partition("\n")[0]
        raise errors.CaptureFailed(
            f"{name} cannot be captured: PyTorch's own export failed with {type(error).__name__}: {what}. Leave out "
            f"what is unusual in it, such as inputs that share memory and change, or tensors reshaped in place"
        ) from error
    except UserWarning as warning:
        if not re.match(_ASSIGNED, str(warning)):
            raise
        attributes = str(warning).removeprefix("The tensor ").split(" assigned")[0].rsplit(" ", 1)[0]
        raise replaced(name, re.sub(r"attributes? |self\.\w+\.", "", attributes)) from None
    finally:
        log.disabled = was_disabled


def _of_torch(error: BaseException) -> bool:
    """Whether it was raised inside PyTorch, and not by what the user wrote."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and frames[-1].filename.startswith(os.path.dirname(torch.__file__))


@contextlib.contextmanager
def _missing_fakes(name: str) -> Generator[None]:
    """Tells an op that cannot say the shape of its result from all else that capturing may raise."""
    try:
        yield
    except RuntimeError as error:  # what torch raises here is one of its subclasses, by the way the op was defined
        if op := _without_fake(error):
            raise errors.MissingFake(_fake_text(name, op, _where(error))) from error
        raise


_FAKELESS = (
    re.compile(r"no fake impl registered for <CustomOpDef\(([\w:.]+)\)>"),
    re.compile(r"([\w:.]+): attempted to run this operator with Meta tensors"),
)


def _without_fake(error: BaseException) -> str:
    """The op, as `namespace::name`, that an exception or one behind it complains of for having no fake."""
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
    schema = schema_of(names.overloads(op)[0])
    arguments = [argument.name for argument in schema.arguments]
    tensor = next((each.name for each in schema.arguments if "Tensor" in str(each.type)), "...")
    return (
        f"{name} calls {op}{where}, which has no fake: nothing says what shape and type its result has without "
        f"computing it, and capture works without data. Write one beside the op:\n\n"
        f'    @torch.library.register_fake("{op}")\n'
        f"    def _({', '.join(arguments)}):\n"
        f"        return torch.empty_like({tensor})    # a tensor like the result; its numbers do not matter"
    )


def _blamed(name: str, error: Exception) -> errors.WorkbenchError:
    if getattr(error, "gb_type", "") == "Observed exception":
        return errors.CaptureFailed(f"{name} raised while it was captured: {_context(error)}{_where(error)}")
    return errors.GraphBreak(name, f"{_reason(error)}{_where(error)}")


def replaced(name: str, what: str) -> errors.HiddenState:
    return errors.HiddenState(
        f"{name} puts new tensors into what it holds ({what}) while it runs; a graph records results, and changes of "
        f"tensors in place. Return them, or change a registered buffer in place: `buffer.copy_(...)`."
    )


def _lines(error: Exception, label: str) -> list[str]:
    found = (line.strip() for line in str(error).splitlines())
    return [line.removeprefix(label).strip() for line in found if line.startswith(label)]


def _context(error: Exception) -> str:
    """`ValueError('bad shape')`, from where Dynamo keeps it."""
    return next((line.removeprefix("raised exception ") for line in _lines(error, "Developer debug context:")), "")


def _reason(error: Exception) -> str:
    first = str(error).strip().splitlines() or [type(error).__name__]
    parts = [first[0].strip().rstrip("."), *_lines(error, "Explanation:")[:1]]
    return ": ".join(parts).rstrip(".")


def _where(error: Exception) -> str:
    stack = cast("traceback.StackSummary | None", getattr(error, "real_stack", None))
    frames = stack or traceback.extract_tb(error.__traceback__)
    file, line = place_of("".join(f'File "{frame.filename}", line {frame.lineno}, in \n' for frame in frames))
    return f", at {file}:{line}" if file else ""
