"""The judge must know wrong from right, and shrinking must keep what fails."""

from __future__ import annotations

import torch

from tests.fuzz.generate import generate
from tests.fuzz.judge import difference
from tests.fuzz.program import Input, Program, Step
from tests.fuzz.shrink import shrink


def test_a_seed_is_always_the_same_program_and_it_has_two_steps_at_least_for_most():
    assert generate(3) == generate(3)
    assert sum(len(generate(seed).steps) >= 2 for seed in range(50)) > 40


def test_the_judge_knows_a_wrong_number_from_a_rounded_one():
    wide = torch.tensor([1.0, 2.0], dtype=torch.float64)
    right = torch.tensor([1.0, 2.0])
    assert not difference("v0", right + 1e-5, right, wide)
    assert "v0[1]" in difference("v0", right + torch.tensor([0.0, 0.1]), right, wide)
    assert "NaN" in difference("v0", torch.tensor([1.0, torch.nan]), right, wide)
    assert "expected" in difference("v0", right.long(), right, wide)
    assert "v0[0]" in difference("v0", torch.tensor([3]), torch.tensor([4]), torch.tensor([4]))


def test_pytorchs_own_error_is_granted_tenfold():
    wide = torch.tensor([1.0], dtype=torch.float64)
    rough = torch.tensor([1.01])
    assert not difference("v0", torch.tensor([1.09]), rough, wide)
    assert difference("v0", torch.tensor([1.2]), rough, wide)


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
