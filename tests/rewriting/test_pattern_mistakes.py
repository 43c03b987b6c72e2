"""Mistakes in patterns: each is one error that names the pattern and its place."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch

import workbench as wb
from tests.rewriting import own_ops
from workbench.ground import errors
from workbench.ground.environment.registered import REWRITES

pytestmark = pytest.mark.usefixtures("own_scope")


async def _later(x: torch.Tensor) -> torch.Tensor:
    return torch.exp(x)


def _endless(x: torch.Tensor) -> torch.Tensor:
    return _endless(x)


BAD: dict[str, tuple[Callable[[], object], str]] = {
    "calls itself": (
        lambda: wb.pattern("it", op=own_ops.below_largest_op, example=(own_ops.SQUARE,))(_endless),
        r"pattern 'it' at .*test_pattern_mistakes.py:.*_endless calls itself without an end, .*_mistakes.py",
    ),
    "no function of ops": (
        lambda: wb.pattern("it", op=own_ops.scaled_relu_op, example=(own_ops.SQUARE, 2.0))(lambda x, s: x.tolist()),
        "pattern 'it' at .*test_pattern_mistakes.py:.*its function cannot be captured",
    ),
    "example too short": (
        lambda: wb.pattern("it", op=own_ops.scaled_relu_op, example=(own_ops.SQUARE,))(own_ops.scaled_relu),
        "example= does not fit scaled_relu.*missing a required argument: 'scale'",
    ),
    "example of no tuple": (
        lambda: wb.pattern("it", op=own_ops.scaled_relu_op, example=own_ops.SQUARE)(own_ops.scaled_relu),
        "is no tuple; expected a tensor or number for each parameter",
    ),
    "a text": (
        lambda: wb.pattern("it", op=own_ops.scaled_relu_op, example=(own_ops.SQUARE, "2"))(own_ops.scaled_relu),
        "the parameter 'scale' is str in the example; the parameters of a pattern are tensors and numbers",
    ),
    "outside": (
        lambda: wb.pattern("it", op=own_ops.below_largest_op, example=(own_ops.SQUARE,))(lambda x: x * own_ops.SQUARE),
        "from outside: make it a parameter",
    ),
    "unused": (
        lambda: wb.pattern("it", op=own_ops.diamond_op, example=(own_ops.SQUARE,) * 2)(lambda x, y: torch.exp(x)),
        "no op reads its parameter 'y'",
    ),
    "returns its parameter": (
        lambda: wb.pattern("it", op=own_ops.both_op, example=(own_ops.SQUARE,) * 3)(lambda x, y, z: (x, x + y + z)),
        "it returns its parameter 'x' as it is",
    ),
    "one result twice": (
        lambda: wb.pattern("it", op=own_ops.below_largest_op, example=(own_ops.SQUARE,))(lambda x: (y := x * 2, y)),
        "it returns one tensor twice",
    ),
    "parts": (
        lambda: wb.pattern("it", op=own_ops.both_op, example=(own_ops.SQUARE,) * 3)(lambda x, y, z: (x + y, z * 2)),
        "its ops fall into parts that share no tensor",
    ),
    "in place": (
        lambda: wb.pattern("it", op=own_ops.below_largest_op, example=(own_ops.SQUARE,))(lambda x: x.add_(1)),
        "it changes x in place; return the result instead",
    ),
    "computed number": (
        lambda: wb.pattern("it", op=own_ops.scaled_relu_op, example=(own_ops.SQUARE, 2.0))(
            lambda x, scale: torch.relu(x * (scale + 1))
        ),
        "it computes with its parameter 'scale': an argument is 3.0 and 4.25 where scale is 2.0 and 3.25",
    ),
    "number without a use": (
        lambda: wb.pattern("it", op=own_ops.scaled_relu_op, example=(own_ops.SQUARE, 2.0))(lambda x, scale: x * 2),
        "no op has its parameter 'scale' among its arguments",
    ),
    "other arguments": (
        lambda: wb.pattern("it", op=own_ops.diamond_op, example=(own_ops.SQUARE,))(own_ops.below_largest),
        "rewriting_tests.diamond.default takes x, y, and is called with x: the pattern's parameters in their order",
    ),
    "other results": (
        lambda: wb.pattern("it", op=own_ops.both_op, example=(own_ops.SQUARE,) * 3)(lambda x, y, z: x + y + z),
        "rewriting_tests.both.default gives 2 results, the pattern's function 1",
    ),
    "other shape": (
        lambda: wb.pattern("it", op=own_ops.below_largest_op, example=(own_ops.SQUARE,))(lambda x: x.sum(1)),
        "gives 4x8xf32 as result 0, the pattern's function 4xf32, for the pattern's example",
    ),
    "several overloads": (
        lambda: wb.pattern("it", op="aten.add", example=(own_ops.SQUARE,) * 2)(lambda x, y: x + y),
        "op='aten.add' has the overloads aten.add.Tensor.*name one of them",
    ),
    "unknown op": (
        lambda: wb.pattern("it", op="demo.nothing", example=(own_ops.SQUARE,) * 2)(lambda x, y: x + y),
        "pattern 'it' at .*test_pattern_mistakes.py:.*op= is wrong: .*torch.ops.demo has no op 'nothing'",
    ),
    "a function for the op": (
        lambda: wb.pattern("it", op=_later, example=(own_ops.SQUARE,) * 2)(lambda x, y: x + y),
        "pattern 'it' at .*_mistakes.py:.*op= is wrong: '_later': 'function' is no operator",
    ),
    "built in": (
        lambda: wb.pattern("it", op=own_ops.below_largest_op, example=(own_ops.SQUARE,))(torch.relu),
        "Python does not tell the parameters of relu; write a function that calls it",
    ),
    "no name": (
        lambda: wb.pattern("it", op=own_ops.diamond_op, example=(own_ops.SQUARE,) * 2)(partial(own_ops.diamond, 1)),
        "example= does not fit partial.*too many positional arguments",
    ),
    "module": (
        lambda: wb.pattern("it", op=own_ops.diamond_op, example=(own_ops.SQUARE,) * 2)(torch.nn.ReLU()),
        "the parameter 'args' is tuple in the example",
    ),
    "async": (
        lambda: wb.pattern("it", op=own_ops.below_largest_op, example=(own_ops.SQUARE,))(_later),
        "_later is async; a pattern must be synchronous",
    ),
    "quantized": (
        lambda: wb.pattern(
            "it", op=own_ops.below_largest_op, example=(torch.quantize_per_tensor(torch.ones(4), 1.0, 0, torch.qint8),)
        )(own_ops.below_largest),
        "no tensor like its parameter 'x', 4xqint8, can be made",
    ),
    "changes arguments": (
        lambda: wb.pattern("it", op="aten.add_.Tensor", example=(own_ops.SQUARE,) * 2)(lambda x, y: x + y),
        "changes its arguments in place",
    ),
}


@pytest.mark.test_all(but=7)
@pytest.mark.parametrize("mistake", BAD)
def test_a_mistake_in_a_pattern_is_one_error(mistake: str):
    make, told = BAD[mistake]
    with pytest.raises(errors.WorkbenchError, match=told):
        make()
    assert wb.trace(lambda x: torch.relu(x * 2), torch.randn(3, 4)).lowered.record.rewrites == ()


@torch._dynamo.assume_constant_result
def _stopped() -> None:
    """Stop was pressed while Dynamo called this."""
    raise KeyboardInterrupt


def _stopped_inside(x: torch.Tensor, scale: float) -> torch.Tensor:
    _stopped()
    return torch.relu(x * scale)


def _stops(x: torch.Tensor, scale: float) -> torch.Tensor:
    raise KeyboardInterrupt


@pytest.mark.parametrize("function", [_stopped_inside, _stops])
def test_an_interrupt_while_a_pattern_is_made_arrives_and_leaves_what_was_registered(
    function: Callable[..., torch.Tensor],
):
    make = wb.pattern("it", op=own_ops.scaled_relu_op, example=(own_ops.SQUARE, 2.0))
    make(own_ops.scaled_relu)
    before = REWRITES.now()
    with pytest.raises(KeyboardInterrupt):
        make(function)
    assert REWRITES.now() == before
    j = wb.trace(lambda x: torch.relu(x * 2), torch.randn(3, 4))
    assert len(j.lowered.record.rewrites[0].matches) == 1 and j.check().ok


def test_a_takes_that_ends_in_no_answer_is_told_or_passes_and_the_next_trace_is_right():
    answers: list[Callable[[object], bool]] = []

    def endless(of: object) -> bool:
        return endless(of)

    def stopped(of: object) -> bool:
        raise KeyboardInterrupt

    wb.pattern("it", op=own_ops.scaled_relu_op, example=(own_ops.SQUARE, 2.0), takes=lambda of: answers.pop()(of))(
        own_ops.scaled_relu
    )
    answers += [lambda of: True, stopped, endless]
    with pytest.raises(errors.PatternFailed, match=r"takes= of the pattern 'it' at .*own_ops.py:.* RecursionError"):
        wb.trace(lambda x: torch.relu(x * 2), torch.randn(3, 4))
    with pytest.raises(KeyboardInterrupt):
        wb.trace(lambda x: torch.relu(x * 2), torch.randn(3, 4))
    j = wb.trace(lambda x: torch.relu(x * 2), torch.randn(3, 4))
    assert len(j.lowered.record.rewrites[0].matches) == 1


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("answer", ["no", None, 0])
def test_a_takes_that_answers_neither_yes_nor_no_is_refused(answer: object):
    make = wb.pattern("it", op=own_ops.scaled_relu_op, example=(own_ops.SQUARE, 2.0), takes=lambda of: answer)
    make(own_ops.scaled_relu)
    told = rf"takes= of the pattern 'it' at .*own_ops.py:\d+ returned {answer!r}; expected True or False"
    with pytest.raises(errors.PatternFailed, match=told):
        wb.trace(lambda x: torch.relu(x * 2), torch.randn(3, 4))
