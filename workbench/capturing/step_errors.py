"""PyTorch's errors in a training step, as errors of the workbench that say what to do."""

from __future__ import annotations

import contextlib
import re
import traceback
from collections.abc import Generator

from workbench.capturing.blame import is_of_torch, raised, raised_at
from workbench.ground import errors
from workbench.ground.torch_inside.fake_tensors import DataDependentOutputException, DynamicOutputShapeException

_REFUSED_BY_AUTOGRAD = {
    "backward through the graph a second time": (
        "its backward pass goes through a part of the graph a second time, whose tensors are freed after the first",
        "Give retain_graph=True to the first backward(), or compute the part again",
    ),
    "modified by an inplace operation": (
        "a tensor that the backward pass reads is changed in place before that",
        "Change a copy, as x + 1 for x.add_(1)",
    ),
    "does not require grad and does not have a grad_fn": (
        "backward() is called on a tensor that depends on nothing that requires a gradient",
        "Compute it from parameters, with gradients on (no torch.no_grad(), no .detach() between)",
    ),
    "grad can be implicitly created only for scalar outputs": (
        "backward() is called on a tensor of several elements",
        "Call it on one number: loss.sum().backward() or loss.mean().backward()",
    ),
    "a leaf Variable that requires grad is being used in an in-place operation": (
        "a parameter is changed in place where gradients are on",
        "Change it under torch.no_grad()",
    ),
    "A view was created in no_grad mode": (
        "a view that is made without gradients is changed in place, as Adam does with parameters of complex numbers",
        "Keep the real numbers as the parameter, and let the step compute with torch.view_as_complex(parameter)",
    ),
    "FX to symbolically trace a dynamo-optimized function": (
        "it calls a function that torch.compile made",
        "Call the plain one, which a compiled module has as _orig_mod: all of the step goes through kernels anyway",
    ),
    "Expected inputs of BF16 type but got": (
        "PyTorch can trace grouped products only in bfloat16",
        "In a model of transformers, choose other products: model.set_experts_implementation('batched_mm')",
    ),
    "One of the differentiated Tensors appears to not have been used in the graph": (
        "it asks for the gradient of a tensor that the loss does not depend on",
        "Leave that tensor out, or give allow_unused=True",
    ),
}
"""A part of PyTorch's message, its meaning, and the advice."""


@contextlib.contextmanager
def step_errors(name: str) -> Generator[None]:
    """Translates PyTorch's errors raised inside. The user's own errors stay unchanged."""
    try:
        yield
    except errors.WorkbenchError:
        raise
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        why, advice = _of_data(error)
        raise errors.NoTrainingStep(name, why, advice, raised_at(error)).instead_of(error) from None
    except RuntimeError as error:
        if found := re.search(r"no rule registered for HigherOrderOperator (\w+)", str(error)):
            why = f"it calls torch.{found.group(1)}, whose branches or steps are graphs of their own"
            raise errors.NoTrainingStep(name, why, _WRITE_OUT, raised_at(error)).instead_of(error) from None
        for said, (why, advice) in _REFUSED_BY_AUTOGRAD.items():
            if said in str(error):
                raise errors.NoTrainingStep(name, why, advice, raised_at(error)).instead_of(error) from None
        if is_of_torch(error):
            what = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
            raise raised(name, what, raised_at(error)).instead_of(error) from None
        raise


_WRITE_OUT = "Compute both branches and choose by torch.where, or write the loop in Python"

_BY_DATA = {
    "torch/optim/radam.py": ("RAdam decides by the count of its steps", "Train with Adam, AdamW or NAdam"),
    "torch/optim/asgd.py": ("ASGD computes its rates as numbers of its count", "Train with SGD"),
    "torch/optim/_adafactor.py": ("Adafactor decides by its numbers", "Train with AdamW"),
    "torch/amp/grad_scaler.py": (
        "GradScaler decides by the gradients whether the optimizer steps",
        "Train with torch.autocast and bfloat16, which needs no scaler",
    ),
    "torch/distributions/": (
        "a distribution looks at its numbers whether they are allowed",
        "Make it with validate_args=False",
    ),
    "torch/nn/functional.py gaussian_nll_loss": (
        "gaussian_nll_loss looks whether a variance is below zero",
        "Write the loss out: 0.5 * (torch.log(var) + (x - y) ** 2 / var)",
    ),
    "one_hot": (
        "one_hot without num_classes looks for the largest number",
        "Give the number of classes: one_hot(y, 10)",
    ),
    "torch/nn/modules/batchnorm.py": (
        "a batch norm with momentum=None divides by its count of batches",
        "Give it a momentum: momentum=0.1",
    ),
    "torch/optim/swa_utils.py": ("AveragedModel decides by its count of averages", "Average outside of the step"),
    "cov": (
        "torch.cov reads the number of its observations from a tensor",
        "Write it out: d = x - x.mean(1, keepdim=True); d @ d.T / (x.shape[1] - 1)",
    ),
    "corrcoef": (
        "torch.corrcoef reads the number of its observations from a tensor",
        "Write it out: d = x - x.mean(1, keepdim=True); d = d / d.norm(dim=1, keepdim=True); d @ d.T",
    ),
    "combinations": (
        "torch.combinations chooses its pairs by a mask",
        "Choose them by their places: i, j = torch.triu_indices(n, n, 1); torch.stack([x[i], x[j]], 1)",
    ),
    "linalg_lstsq": (
        "lstsq has results whose sizes its numbers decide",
        "Solve the normal equations: torch.linalg.solve(a.T @ a, a.T @ b)",
    ),
    "ctc_loss": (
        "ctc_loss reads the lengths of its sequences",
        "Compile the model alone, torch.compile(model, backend='npu'), and compute the loss in PyTorch",
    ),
    "_pack_padded_sequence": (
        "a packed sequence reads the lengths of its sequences",
        "Give the layer the padded batch, and mask its results: torch.where(mask, out, 0)",
    ),
}
"""Code that depends on data, with the reason and the advice. A key is a part of the code's file path, perhaps with a
function's name, or the name of a function of torch alone."""


def _of_data(error: BaseException) -> tuple[str, str]:
    """Returns the reason why the step reads a tensor's data, and the advice."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    files = [f"{each.f_code.co_filename.replace(chr(92), '/')} {each.f_code.co_name}" for each in frames]
    called = {getattr(each.f_locals.get("func"), "__name__", "") for each in frames}
    for part, (why, advice) in _BY_DATA.items():
        if part in called or ("/" in part and any(part in each for each in files)):
            return f"{why}, which a graph of all later steps cannot have", advice
    if isinstance(error, DynamicOutputShapeException):
        return (
            "a result has as many elements as a tensor's data say, which differs from step to step",
            "Keep the shape: torch.where(mask, x, 0) for x[mask], and divide by mask.sum() where a mean is wanted",
        )
    return (
        "it makes a number or a decision of a tensor's data, which a graph of all later steps cannot have",
        "Return the tensor, as loss.detach(), and read its number from what j.run returns",
    )
