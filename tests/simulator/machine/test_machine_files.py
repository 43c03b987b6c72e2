"""Machine files: what they say, and what is wrong with them."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

import pytest

from simulator.errors import MachineError
from simulator.machine.figure_places import FLAT_NAMES, PLACES
from simulator.machine.machine_file import load_machine, machine_names, parse_machine

POCKET = """
version = 1
base = "tpu-v3"
clock_mhz = 1_000
assumed = ["clock_mhz"]

[vector]
lanes = 16
alus = 3
special_interval_cycles = 4
assumed = ["alus"]

[vector.sources]
lanes = "data sheet"

[vector.fitted]
special_interval_cycles = "by hand, to the softmax of table 2"
"""


def test_a_table_for_each_part_sets_its_figures_and_says_where_they_come_from() -> None:
    pocket, base = parse_machine("pocket", POCKET), load_machine("tpu-v3")
    assert (pocket.clock_mhz, pocket.vector.lanes, pocket.vector.alus) == (1000, 16, 3)
    changed = {name for name, value in pocket.figures().items() if value != base.figures()[name]}
    assert changed == {"name", "clock_mhz", "vector_lanes", "vector_alus", "special_interval_cycles"}
    told = {name: pocket.provenance.told(name) for name in sorted(changed - {"name"})}
    assert told == {
        "clock_mhz": "assumed",
        "special_interval_cycles": "fitted: by hand, to the softmax of table 2",
        "vector_alus": "assumed",
        "vector_lanes": "data sheet",
    }
    assert pocket.provenance.told("systolic_rows") == base.provenance.told("systolic_rows")
    assert (
        pocket.with_(vector_alus=4, special_interval_cycles=1).provenance.told("special_interval_cycles") == "override"
    )


def test_cores_that_differ_are_tables_of_parts() -> None:
    text = 'version = 1\nbase = "edge-8x8"\nassumed = ["cores"]\n[[cores]]\n[[cores]]\nclock_ratio = 0.5\n'
    machine = parse_machine("mine", text + "vector.lanes = 4\n[cores.array]\nrows = 4\n")
    own = {"clock_ratio": 0.5, "vector_lanes": 4, "systolic_rows": 4}
    assert machine.figures() == load_machine("edge-8x8", name="mine", cores=[{}, own]).figures()
    assert {"cores", "core_figures"} <= set(machine.assumed)


def test_every_figure_has_a_flat_name_and_a_place_of_its_own() -> None:
    assert len(FLAT_NAMES) == len(PLACES)
    machine = load_machine("tpu-v3")
    for name, place in PLACES.items():
        part = getattr(machine, place.part) if place.part else machine
        assert machine.figures()[name] == getattr(part, place.field) == getattr(machine, name)


def _flat_reads(text: str) -> Iterable[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and node.attr in PLACES and PLACES[node.attr].part:
            owner = ast.unparse(node.value).split(".")[-1]
            if owner == "machine":
                yield f"{node.lineno}: {ast.unparse(node)}"


@pytest.mark.test_all
def test_our_own_code_reads_parts() -> None:
    """Flat names are looked up, which is slow. Pyright finds the others, but not where its rule is switched off."""
    assert [*_flat_reads("x = machine.vector_lanes + a.machine.memory + machine.dma.queues")] == [
        "1: machine.vector_lanes",
        "1: a.machine.memory",
    ]
    root = Path(__file__).resolve().parents[3]
    files = [
        path
        for folder in ("simulator", "workbench", "templates", "benchmarks")
        for path in (root / folder).rglob("*.py")
    ]
    assert len(files) > 300
    assert {path.name: found for path in files if (found := [*_flat_reads(path.read_text("utf-8"))])} == {}


def _on(text: str) -> str:
    return f'version = 1\nbase = "tpu-v3"\n{text}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (_on("[vector]\nlane = 4"), r"\[vector\] has no figure 'lane'; did you mean 'lanes'\?$"),
        (_on("[vector]\nrows = 4"), r"\[vector\] has no figure 'rows'; \[array\] has one$"),
        (_on("[host]\nlanes = 4"), r"\[host\] has no figure 'lanes'; \[vector\] has one$"),
        (_on("[host]\nqqq = 4"), r"has no figure 'qqq'; it has link_bytes_per_second, link_latency_us, flops_per_sec"),
        (
            _on("[vector]\nvector_lanes = 4"),
            r"\[vector\] has no figure 'vector_lanes': it is a flat name; in a file it is \[vector\] lanes",
        ),
        (_on("[vecto]\nlanes = 4"), r"unknown table 'vecto'; did you mean 'vector'\? Tables are core, array, "),
        (_on("clock_mh = 4"), "unknown figure 'clock_mh'; did you mean 'clock_mhz'"),
        (_on("vector_lanes = 4"), r"'vector_lanes' is a flat name; in a file it is \[vector\] lanes$"),
        (_on("vector = 4"), r"vector = 4: expected a table, \[vector\]"),
        (_on("[[vector]]\nlanes = 4"), r"expected a table, \[vector\], with figures"),
        (_on("name = 'x'"), "a machine is called as its file is; leave the name out"),
        (_on("[vector]\nlanes = 0"), r"\[vector\] lanes = 0: expected more than zero$"),
        (_on("[vector]\nlanes = [1]"), r"\[vector\] lanes = \[1\] is neither a number nor a text"),
        (
            _on("[vector]\nlanes = 4"),
            r"\[vector\]: lanes does not say where it comes from; expected a text in \[vector.s",
        ),
        (_on("clock_mhz = 4"), r"clock_mhz does not say where it comes from; expected a text in \[sources\]"),
        (
            _on('[vector]\nlanes = 4\nassumed = ["lanes"]\n[vector.fitted]\nlanes = "x"'),
            r"\[vector\]: lanes stands in `assumed` and in \[fitted\]; expected one of them",
        ),
        (
            _on('[vector.sources]\nlanes = "x"'),
            r"\[vector\]: \[sources\] names 'lanes', which is not set there\. A fig",
        ),
        (
            _on('[vector]\nlanes = 4\nassumed = ["lane"]'),
            r"`assumed` names 'lane', which is not set there; did you mean 'lanes'\?",
        ),
        (_on("assumed = 'lanes'"), "assumed = 'lanes': expected a list of names of figures"),
        (_on("[vector]\nlanes = 4\nfitted = 'x'"), r"fitted = 'x': expected a table with a text for each figure"),
        (
            _on("[vector]\nlanes = 4\nsources = {lanes = 5}"),
            "sources: lanes = 5: expected a table with a text for each",
        ),
        (
            _on('[dram]\nchannels = 3\nassumed = ["channels"]'),
            r"a\.toml': dram_channels = 3: expected a power of two\. In the file dram_channels is \[dram\] channels$",
        ),
        (
            _on("[[cores]]\narray.row = 4"),
            r"core 0 of \[\[cores\]\]: a core has no 'array.row' .* did you mean 'array.rows'",
        ),
        (_on("[[cores]]\n[[cores]]\nvector.lanes = 0"), r"core 1 of \[\[cores\]\]: vector.lanes = 0: expected a whole"),
        (_on("cores = [3]"), r"core 0 of \[\[cores\]\] is 3; expected a table"),
        (_on("cores = []"), "the list is empty"),
        (_on("cores = 2"), r"cores = 2: expected \[\[cores\]\], a table a core; their count is \[core\]"),
        (
            _on('assumed = ["cores"]\n[core]\ncount = 2\nassumed = ["count"]\n[[cores]]'),
            r"\[\[cores\]\] and \[core\] count say the same",
        ),
        (
            'version = 1\nclock_mhz = 4\nassumed = ["clock_mhz"]',
            r"lacks \[array\] count, \[array\] rows, .* as its `base`",
        ),
        ("version = 2", "version = 2: expected 1, with a table for each part. Write the file again as docs/adding"),
        ("version = true", "version = True: expected 1"),
        ("version = 1.0", r"version = 1\.0: expected 1"),
        ('base = "tpu-v3"\n[vector]\nlanes = 4', "it says no version; write `version = 1` at the top"),
        ('base = "tpu-v3"\nvector_lanes = 4', r"write `version = 1` at the top, and a table for each part: \[vector\]"),
        ('version = 1\nbase = "tpu-v9"', r"base = 'tpu-v9' is no shipped machine; did you mean"),
        ("version = 1\nbase = 8", "base = 8 is no name of a machine"),
    ],
)
def test_mistakes_in_a_file_of_tables_are_named(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(text)
    with pytest.raises(MachineError, match=words) as caught:
        load_machine(path)
    assert "a.toml'" in str(caught.value) or "list is empty" in str(caught.value)


@pytest.mark.parametrize("name", machine_names())
def test_a_machine_reads_by_parts_and_by_flat_names(name: str) -> None:
    machine = load_machine(name, vector_lanes=64)
    assert machine.vector.lanes == getattr(machine, "vector_lanes") == 64  # noqa: B009
    assert {"vector", "vector_lanes", "scratchpad_bytes", "memory", "interconnect"} <= set(dir(machine))
    with pytest.raises(AttributeError, match=r"a machine has no 'vector_lane'; did you mean 'vector_lanes'\?"):
        getattr(machine, "vector_lane")  # noqa: B009
    with pytest.raises(AttributeError, match=r"a machine has no 'aray'; did you mean 'array'\?"):
        getattr(machine, "aray")  # noqa: B009


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('lanes = "data sheet"', 'lanes = "override"', "lanes = 'override' is no source"),
        ('lanes = "data sheet"', 'lanes = "fitted: by hand"', r"is no source; .*\[fitted\]"),
        ('lanes = "data sheet"', 'lanes = "assumed"', "is no source; .*`assumed`"),
        ("clock_mhz = 1_000", f"clock_mhz = {'9' * 5000}", "not TOML: Exceeds the limit"),
        ("clock_mhz = 1_000", f"clock_mhz = {'[' * 3000}", "not TOML: "),
    ],
)
def test_a_file_that_says_what_cannot_be_is_refused(old: str, new: str, words: str) -> None:
    with pytest.raises(MachineError, match=words):
        parse_machine("pocket", POCKET.replace(old, new))


@pytest.mark.parametrize(
    ("core", "words"),
    [
        ('vector.lanes = "64"', "vector.lanes = '64': expected a number"),
        ('"vector.lanes" = 64\nvector.lanes = 32', "vector.lanes is given twice"),
        ("clock_ratio = 1e300", "at most 1,000,000"),
    ],
)
def test_a_core_of_a_file_is_held_to_what_cores_can_be(core: str, words: str) -> None:
    with pytest.raises(MachineError, match=words):
        parse_machine("pocket", f"{POCKET}\n[[cores]]\n\n[[cores]]\n{core}\n")


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "pocket.toml").write_text(POCKET.lstrip(), encoding="utf-8-sig")
    assert load_machine(tmp_path / "pocket.toml").figures() == parse_machine("pocket", POCKET).figures()


def test_a_name_that_is_no_path_is_told() -> None:
    with pytest.raises(MachineError, match="cannot be read: embedded null"):
        load_machine("a\0.toml")
