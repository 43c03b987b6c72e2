"""A sample of the wrong results, drawn by a seed, and what the whole run of them wrote."""

from __future__ import annotations

import random

import pytest
import torch

from tests.wrong_results.__main__ import WRITTEN
from tests.wrong_results.mutants import Mutant, calls, mutants, why_not

HERE = random.Random(20).sample(calls(), 30)


@pytest.mark.test_all
def test_every_wrong_result_that_counts_is_caught():
    found: list[Mutant] = [each for name, dtype, case in HERE for each in mutants(name, dtype, case)]
    missed = [each for each in found if not each.why_not and not each.caught]
    assert not missed, missed
    floats = [each for each in found if each.kind == "float" and each.mutation in ("zero", "x 1.05")]
    assert len(floats) > 20
    assert sum(not each.why_not for each in floats) >= 0.9 * len(floats)


def test_what_counts_is_beyond_pytorchs_error_and_a_unit():
    exact = torch.tensor([1.0, 2.0], dtype=torch.float64)
    right = exact.float()
    assert why_not(right, right.clone(), exact) == "unchanged"
    assert why_not(right, right * (1 + 2**-23), exact) == "within one unit"
    assert why_not(right + 0.1, right + 0.2, exact) == "within four times PyTorch's error"
    assert why_not(right, right * 1.001, exact) == ""
    assert why_not(torch.tensor([1]), torch.tensor([2]), torch.tensor([1])) == ""


def test_the_whole_run_caught_all_that_count_and_nine_in_ten_count():
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in WRITTEN.read_text().splitlines()]
    shown = {(row[0], row[1]): row for row in rows if len(row) == 8 and row[2].isdigit()}
    assert len(shown) == 8
    for (mutation, kind), row in shown.items():
        of, count, caught = int(row[2]), int(row[3].split()[0]), int(row[4])
        assert count == caught
        assert of == count + sum(map(int, row[5:]))
        assert kind == "whole" or mutation not in ("zero", "x 1.05") or count >= 0.9 * of
