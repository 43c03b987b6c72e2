"""The judge must know wrong from right, and shrinking must keep what fails."""

from __future__ import annotations

import pytest
import torch

from tests.fuzz.conv_nets import conv_net, judge_net
from tests.fuzz.fuzz_program import Input, Program, Step
from tests.fuzz.generate import generate
from tests.fuzz.judge import compared
from tests.fuzz.shrink import shrink
from tests.fuzz.training_steps import OPTIMIZERS, judge_step, training_step

CONV_SEEDS = range(8)


def test_a_seed_is_always_the_same_program_and_it_has_two_steps_at_least_for_most():
    assert generate(3) == generate(3)
    assert sum(len(generate(seed).steps) >= 2 for seed in range(50)) > 40


PLAIN = Program(
    0,
    '"edge-8x8"',
    (Input("x0", (2, 3), "float32", "contiguous", "normal", 1),),
    (Step("v0", ("v0 = x0.tanh()",), ("x0",)), Step("v1", ("v1 = (x0 > 0)",), ("x0",))),
    ("v0", "v1"),
)


def test_the_judge_knows_a_wrong_number_from_a_rounded_one():
    def wrong(*changed: torch.Tensor) -> list[str]:
        (x,) = PLAIN.make_inputs()
        right = [*PLAIN.function()(x), x]
        return [each.name for each in compared(PLAIN, [*changed, *right[len(changed) :]]) if not each.ok]

    y, positive = PLAIN.function()(*PLAIN.make_inputs())
    assert not wrong()
    assert not wrong(y * (1 + 2**-23))
    assert wrong(y * 1.0001) == ["v0"]
    assert wrong(y.where(y > 0, torch.nan)) == ["v0"]
    assert wrong(y.double()) == ["v0"]
    assert wrong(y, ~positive) == ["v1"]
    assert wrong(y, positive, PLAIN.make_inputs()[0] + 1) == ["x0 afterwards"]


def test_every_other_program_is_drawn_without_a_limit_to_its_numbers():
    def largest(seed: int) -> float:
        program = generate(seed)
        found = [each.double().nan_to_num(0) for each in program.function()(*program.make_inputs())]
        return max(float(each.abs().max()) if each.numel() else 0.0 for each in found)

    assert max(largest(seed) for seed in range(1, 200, 2)) > 1e5


def test_shrinking_leaves_what_is_needed_to_fail():
    steps = tuple(
        Step(f"v{n}", (f"v{n} = {'x0' if not n else f'v{n - 1}'} + {n}",), (f"v{n - 1}" if n else "x0",))
        for n in range(5)
    )
    program = Program(0, '"edge-8x8"', (Input("x0", (2, 3), "float32", "permuted", "normal", 1),), steps, ("v4",))
    smallest = shrink(program, lambda each: any("+ 2" in line for step in each.steps for line in step.lines))
    assert [step.result for step in smallest.steps] == ["v2"]
    assert smallest.machine == '"tpu-v3"'
    assert all(each.layout == "contiguous" for each in smallest.inputs)


@pytest.mark.test_all
def test_training_steps_are_drawn_and_judged() -> None:
    """One each of those without an optimizer and with one; `python -m tests.fuzz N --train` goes on from there."""
    drawn = {}
    for seed in range(80):
        step = training_step(seed)
        if step is not None and len(step.program.steps) < 3:
            drawn.setdefault(step.optimizer, step)
    assert drawn.keys() == OPTIMIZERS.keys()
    for step in drawn.values():
        verdict = judge_step(step)
        assert not verdict.bad, f"{verdict.kind}: {verdict.detail}\n{step.program.text()}"


def test_convolutional_nets_are_drawn_with_all_kinds_of_layers() -> None:
    text = "\n".join(layer for seed in range(60) for layer in conv_net(seed).layers)
    for kind in (
        "Conv1d",
        "Conv2d",
        "Conv3d",
        "ConvTranspose",
        "BatchNorm",
        "GroupNorm",
        "MaxPool",
        "AvgPool",
        "Gated",
    ):
        assert kind in text
    assert conv_net(3) == conv_net(3)


@pytest.mark.test_all
@pytest.mark.sweep(one_in=4)
@pytest.mark.parametrize("seed", CONV_SEEDS)
def test_a_training_step_of_a_convolutional_net_is_right(seed: int) -> None:
    """`python -m tests.fuzz N --train --conv` goes on from there."""
    net = conv_net(seed)
    verdict = judge_net(net)
    assert not verdict.bad, f"{verdict.kind}: {verdict.detail}\n{net.text()}"
