"""PyTorch's errors in a training step, as errors of the workbench that say what to do."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Generator
from typing import Any

from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

from workbench import errors
from workbench.environment.call_sites import place_text


@contextlib.contextmanager
def step_errors(name: str, parts: Any) -> Generator[None]:
    """Translates what PyTorch raises inside. The user's own errors stay what they are."""
    try:
        yield
    except errors.WorkbenchError:
        raise
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        raise errors.NoTrainingStep(
            name,
            "it makes a number or a decision of a tensor's data, which a graph of all later steps cannot have",
            "Return the tensor, as loss.detach(), and read its number from what j.run returns",
            _place(error),
        ).instead_of(error) from None


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return place_text("".join(f'File "{frame.filename}", line {frame.lineno}, in \n' for frame in frames))
