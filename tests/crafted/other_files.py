"""`python -m tests.crafted.other_files N`: crafts N mapping files, tuned tables, machines, memories and traces.

Each is used as a person would: it is shown, or one told error.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import torch

import workbench as wb
from simulator import Trace
from simulator.machine import machine_file
from tests.crafted.craft import MARK, _bytes, _text
from tests.crafted.judge import Found, report
from tests.crafted.opening import in_a_child
from tests.crafted.scripted import html_of

SHIPPED = Path(machine_file.__file__).parent
SECONDS = 20.0
"""Of processor, for a file that is used in a whole trace."""
MEGABYTES = 2_000.0
"""Of a process with PyTorch and MLIR in it."""
VALUE = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d[\d_.e+-]*|true|false')
ODD = (b"-1", b"0", b"1", b"5", b"2147483648", b"9223372036854775808", b"1e308", b"-1e-300", b"0.5", b"nan", b"inf",
       b"true", b'""', b"[]", b"{}", b"[[]]", b"null", b'"\\ud800"', b'"\\u0000"')  # fmt: skip
MAPPING = """version = 1

[[mapping]]
ops = ["matmul", "relu"]
shapes = [[40, 24], [24, 24]]
machine = "edge-8x8"
tile = { m = 8, n = 8, k = 24 }
order = ["m", "n", "k"]
buffers = 2

[[mapping]]
ops = ["softmax"]
tile = { m = 8 }
"""


def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.softmax(torch.relu(x @ w), 1)


INPUTS = torch.ones(40, 24), torch.ones(24, 24)


def originals(folder: Path) -> dict[str, bytes]:
    """A whole file of each kind, by its name. The simulator is compiled for both kinds of memory by the end."""
    wb.trace(program, *INPUTS, machine=wb.machine("edge-8x8", memory="banked")).to_html(folder / "banked.html")
    answer = wb.tune(program, *INPUTS, machine="edge-8x8", budget=8)
    answer.save(folder / "tuned.json", minimum_gain=0.0)
    answer.journey.simulated.trace.save(folder / "run.trace")
    return {
        "tuned.json": (folder / "tuned.json").read_bytes(),
        "run.trace": (folder / "run.trace").read_bytes(),
        "mapping.toml": MAPPING.encode(),
        "machine.toml": (SHIPPED / "shipped/edge-8x8.toml").read_bytes(),
        "memory.toml": (SHIPPED / "shipped_memories/DDR4_3200AA.toml").read_bytes(),
    }


def crafted(name: str, whole: bytes, seed: int) -> tuple[str, bytes]:
    """Returns the name of a change and the changed file: values, keys and lines of a text, or bytes of any file."""
    draw = random.Random(seed)
    way = draw.choice([_values, _values, _values, _lines, _bytes]) if name.endswith((".json", ".toml")) else _bytes
    return f"{name}, {way.__name__.strip('_')}", way(whole, draw)


def _values(data: bytes, draw: random.Random) -> bytes:
    """Texts and numbers, one or all that are equal."""
    for _ in range(draw.choice([1, 1, 2, 4])):
        found = [*VALUE.finditer(data)]
        chosen = draw.choice(found)
        new = draw.choice([*ODD, *[json.dumps(_text(draw)).encode()] * len(ODD)])
        if draw.random() < 0.3:
            data = data.replace(chosen.group(), new)
        else:
            data = data[: chosen.start()] + new + data[chosen.end() :]
    return data


def _lines(data: bytes, draw: random.Random) -> bytes:
    """A line is gone, comes twice, or stands elsewhere; or a text without end."""
    lines = data.splitlines(keepends=True)
    line = lines.pop(draw.randrange(len(lines)))
    for _ in range(draw.choice([0, 1, 2])):
        lines.insert(draw.randrange(len(lines) + 1), line)
    if draw.random() < 0.1:
        lines.insert(
            draw.randrange(len(lines) + 1), draw.choice([b"[" * 20_000, b"a." * 5_000 + b"b = 1\n", b" " * 50_000])
        )
    return b"".join(lines)


def used(name: str, path: Path) -> set[str]:
    """The file in the place where a person gives it, and all that shows its texts."""
    ways: dict[str, Callable[[], wb.Journey]] = {
        "tuned.json": lambda: wb.trace(program, *INPUTS, machine="edge-8x8", tuned=path),
        "mapping.toml": lambda: wb.trace(program, *INPUTS, machine="edge-8x8", mapping=path),
        "machine.toml": lambda: wb.trace(program, *INPUTS, machine=_shown(wb.machine(path))),
        "memory.toml": lambda: wb.trace(
            program, *INPUTS, machine=_shown(wb.machine("edge-8x8", dram_timing=str(path), memory="banked"))
        ),
    }
    if name == "run.trace":
        trace = Trace.load(path)
        assert repr(trace) is not None
        return set()
    journey = ways[name]()
    for stage in (journey.scheduled, journey.simulated):
        assert repr(stage) and stage.text() is not None and MARK not in stage.html()
    journey.to_html("page.html")
    assert MARK not in Path("page.html").read_text()
    journey.save("again.journey")
    wb.load("again.journey")
    return set()


def _shown(machine: wb.Machine) -> wb.Machine:
    assert repr(machine) and MARK not in html_of(machine)
    return machine


def verdicts(whole: dict[str, bytes], seeds: Iterable[int], folder: Path) -> Iterator[tuple[int, Found]]:
    """Uses the file of each seed, and yields the seed and the outcome."""
    for seed in seeds:
        name = [*whole][seed % len(whole)]
        way, data = crafted(name, whole[name], seed)
        path = folder / name
        path.write_bytes(data)
        found = in_a_child(partial(used, name, path), SECONDS)
        yield seed, Found(way, found["outcome"], found["told"], found["seconds"], found["mb"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("count", type=int, nargs="?", default=500, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    seeds = range(given.seed, given.seed + given.count)
    with tempfile.TemporaryDirectory() as folder:
        return report(verdicts(originals(Path(folder)), seeds, Path(folder)), seeds, MEGABYTES)


if __name__ == "__main__":
    sys.exit(main())
