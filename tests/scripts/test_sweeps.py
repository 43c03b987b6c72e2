"""The part of a sweep that `make test-all` runs: few calls, and none of the values left out."""

from __future__ import annotations

import itertools

import pytest

from tests.sweeps import axes, covering, sampled


def calls(*counts: int) -> dict[str, dict[int, str]]:
    """All combinations on axes with so many values."""
    combined = itertools.product(*(map(str, range(count)) for count in counts))
    return {"-".join(values): dict(enumerate(values)) for values in combined}


def test_every_value_of_two_axes_is_in_it_and_few_twice():
    given = calls(20, 3)
    kept = [given[name] for name in covering(given)]
    assert {call[0] for call in kept} == {*map(str, range(20))} and {call[1] for call in kept} == {*"012"}
    assert 20 <= len(kept) <= 22


def test_every_pair_of_values_of_three_axes_is_in_it():
    given = calls(6, 5, 4)
    kept = [given[name] for name in covering(given)]
    for one, other in itertools.combinations(given["0-0-0"], 2):
        assert {(call[one], call[other]) for call in kept} == {(call[one], call[other]) for call in given.values()}
    assert 30 <= len(kept) < 75


def test_where_no_pairs_are_asked_for_every_value_of_three_axes_is_in_it():
    given = calls(2, 2, 3)
    kept = [given[name] for name in covering(given, pairs=False)]
    assert [{call[axis] for call in kept} for axis in range(3)] == [{*"01"}, {*"01"}, {*"012"}]
    assert 3 <= len(kept) <= 6


def test_of_one_axis_all_are_in_it():
    assert covering(calls(7)) == {*map(str, range(7))}


def test_it_does_not_depend_on_the_order():
    given = calls(9, 4)
    other_way = dict(reversed(given.items()))
    assert covering(given) == covering(other_way)
    assert sampled(given, 4) == sampled(other_way, 4)


def test_a_sample_has_one_in_so_many_values_of_the_longest_axis_with_all_of_the_others():
    given = calls(2, 10, 3)
    kept = sampled(given, 4)
    chosen = {call[1] for call in kept.values()}
    assert len(chosen) == 3
    assert kept == {name: call for name, call in given.items() if call[1] in chosen}
    assert sampled(given, 1) == given and len(sampled(calls(3), 9)) == 1


def test_samples_of_two_tests_are_not_of_the_same_values():
    samples = [sampled({f"{test}-{name}": call for name, call in calls(20).items()}, 4) for test in ("one", "other")]
    assert {call[0] for call in samples[0].values()} != {call[0] for call in samples[1].values()}


@pytest.mark.parametrize(("one", "two"), [("a", 1), ("b", 2)], ids=["first", "second"])
@pytest.mark.parametrize("three", [False, True])
def test_each_parametrize_is_an_axis(three: bool, one: str, two: int, request: pytest.FixtureRequest):
    assert isinstance(request.node, pytest.Function)
    assert axes(request.node) == {0: str(three), 1: {"a": "first", "b": "second"}[one]}
