"""The benchmark against a cycle-level DRAM simulator: its patterns, its figures, and what it prints."""

from __future__ import annotations

import csv
import json

import pytest

from tests.benchmarks.conftest import OnTable

R, SPAN = 32, 3 << 20


def test_every_row_of_the_reference_is_met() -> None:
    """Cycles within 10% of each row, row hits within 400 of 40,000."""
    import dram_accuracy

    rows = dram_accuracy.read_table(dram_accuracy.TABLE)
    assert len(rows) == 18
    for row in rows:
        found = dram_accuracy.simulate(row)
        assert row.measured is not None and row.measured_hits is not None
        assert abs(found.cycles / row.measured - 1) < 0.10, row
        assert abs(found.counters["row_hits"] - row.measured_hits) <= 400, row


def test_latencies_and_conflicts_are_the_references_too() -> None:
    import dram_accuracy

    with dram_accuracy.TABLE.open(newline="") as file:
        told = list(csv.DictReader(file))
    for row, line in zip(dram_accuracy.read_table(dram_accuracy.TABLE), told, strict=True):
        found = dram_accuracy.simulate(row)
        assert found.average_read_latency == pytest.approx(float(line["avg_read_latency_cycles"]), rel=0.02)
        assert found.counters["row_conflicts"] == pytest.approx(int(line["row_conflicts"]), abs=100)


@pytest.mark.parametrize(
    ("name", "addresses", "writes"),
    [
        ("seq_read", [0, 1, 2, 3], [0, 0, 0, 0]),
        ("seq_write", [0, 1, 2, 3], [1, 1, 1, 1]),
        ("copy_1r1w", [0, SPAN // 64, 1, SPAN // 64 + 1], [0, 1, 0, 1]),
        ("axpy_2r1w", [0, SPAN // 96, SPAN // 48, 1], [0, 0, 1, 0]),
        ("burst_read_then_write_2", [0, 1, SPAN // 64, SPAN // 64 + 1, 2, 3], [0, 0, 1, 1, 0, 0]),
        ("tile_64B_rows_stride_1K", [0, 1, 32, 33, 64], [0, 0, 0, 0, 0]),
        ("tile_48B_rows_stride_2KB", [0, 1, 64, 65], [0, 0, 0, 0]),
        ("column_4B_stride_1M", [0, 1 << 15, 2 << 15, 0], [0, 0, 0, 0]),
    ],
)
def test_patterns_are_what_their_names_say(name: str, addresses: list[int], writes: list[int]) -> None:
    from patterns import pattern

    found = pattern(name, len(addresses), R, SPAN)
    assert [each.tolist() for each in found] == [[R * at for at in addresses], writes]


def test_random_requests_lie_anywhere_in_the_span() -> None:
    from patterns import pattern

    addresses, writes = pattern("random_write", 1000, R, SPAN)
    assert (addresses % R == 0).all() and addresses.min() < SPAN // 100 and SPAN * 0.99 < addresses.max() < SPAN
    assert writes.all()


@pytest.mark.parametrize("name", ["seq", "tile_512B_rows_stride_0", "burst_read_then_write_0", "copy_1r1w "])
def test_other_names_are_refused(name: str) -> None:
    from patterns import UnknownPattern, pattern

    with pytest.raises(UnknownPattern, match=r"patterns are:\s+seq_read"):
        pattern(name, 4, R, SPAN)


def test_json_is_all_there_is_on_stdout(on_table: OnTable) -> None:
    table = "timing,pattern,requests,cycles\nHBM3_6400Mbps,seq_read,500,2000\nLPDDR5_6400,axpy_2r1w,300,\n"
    status, out, _ = on_table("dram_accuracy", table, "--json")
    printed = json.loads(out)
    assert status == 0
    first, second = printed["rows"]
    assert list(first) == ["pattern", "timing", "measured", "simulated"]
    assert first["measured"] == 2000 and second["measured"] is None and second["simulated"] > 300
    assert printed["mean_abs_error"] == pytest.approx(abs(first["simulated"] / 2000 - 1))


def test_without_measurements_there_is_no_error(on_table: OnTable) -> None:
    status, out, _ = on_table("dram_accuracy", "timing,pattern\nDDR4_3200AA,column_4B_stride_8K\n", "--json")
    assert status == 0 and json.loads(out)["mean_abs_error"] is None


def test_what_cannot_be_simulated_is_named(on_table: OnTable) -> None:
    table = "timing,pattern,requests\nDDR5,seq_read,10\nDDR4_2400R,zigzag,10\nDDR4_2400R,seq_read,10\n"
    status, out, error = on_table("dram_accuracy", table, "--json")
    assert status == 1 and "no memory 'DDR5'" in error and "no pattern is called 'zigzag'" in error
    assert [row["pattern"] for row in json.loads(out)["rows"]] == ["seq_read"]
    assert on_table("dram_accuracy", "timing,pattern,cycles\nDDR4_2400R,seq_read,fast\n")[0] == 2
    status, _, error = on_table("dram_accuracy", "pattern\nseq_read\n")
    assert status == 2 and "no column `timing`" in error


def test_the_slope_is_the_power_of_the_time() -> None:
    import dram_speed

    assert dram_speed.slope({10: 1.0, 100: 2.0, 1000: 20.0}) == pytest.approx(1)
    assert dram_speed.slope({100: 2.0, 1000: 200.0}) == pytest.approx(2)
    assert dram_speed.stream_seconds("axpy_2r1w", 300_000) > 0
