"""Content of a golden file: makes it, and describes how two of them differ."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import workbench as wb
from tests.blocks import depthwise_separable
from tests.programs import PROGRAMS
from workbench.models.resnet import resnet18
from workbench.models.seeded import with_statistics
from workbench.models.shipped.gpt import GPT2
from workbench.models.shipped.lenet import lenet

FOLDER = Path(__file__).parent / "programs"
VERSION = 1

MACHINES: dict[str, dict[str, Any]] = {
    "edge-8x8": {},
    "tpu-v2": {},
    "tpu-v3": {},
    "tpu-v4": {},
    "tpu-v3, 4 cores, banked": {"cores": 4, "memory": "banked"},
    "tpu-v3, 2 chiplets": {"cores": 2, "chiplets": 2},
}
"""Each with the figures that differ from those of the machine of this name."""

MODELS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "lenet": (lenet, (4, 1, 28, 28)),
    "depthwise_separable": (depthwise_separable, (1, 16, 24, 24)),
    "resnet18": (resnet18, (1, 3, 64, 64)),
    "gpt2_layer": (lambda: GPT2(layers=1, words=512), (1, 64)),
}

MODELS_ON = ("tpu-v3", "tpu-v3, 4 cores, banked")
"""Models have dozens of kernels, and take a while."""

NAMES = (*PROGRAMS, *MODELS)


def golden(name: str) -> dict[str, Any]:
    """The program on every machine, captured once."""
    torch.manual_seed(0)
    if name in MODELS:
        make, shape = MODELS[name]
        target: Any = with_statistics(make())
        inputs: tuple[torch.Tensor, ...] = (torch.randint(0, 512, shape) if "gpt2" in name else torch.randn(shape),)
        kwargs: dict[str, torch.Tensor] = {}
    else:
        target, inputs, kwargs = PROGRAMS[name].build(), PROGRAMS[name].inputs(), PROGRAMS[name].kwargs()
    figures = {each: MACHINES[each] for each in (MODELS_ON if name in MODELS else MACHINES)}
    first, *others = [wb.machine(each.partition(",")[0], **given) for each, given in figures.items()]
    j = wb.trace(target, *inputs, kwargs=kwargs, machine=first)
    journeys = [j, *(j.with_(machine=machine) for machine in others)]
    runs = {machine: _run(j) for machine, j in zip(figures, journeys, strict=True)}
    tensors = [*inputs, *kwargs.values()]
    shapes = [f"{'x'.join(map(str, each.shape))} {each.dtype}".replace("torch.", "") for each in tensors]
    return {"version": VERSION, "program": name, "inputs": shapes, "machines": figures, "runs": runs}


def _run(j: wb.Journey) -> dict[str, Any]:
    counters, cycles = j.simulated.record.counters, j.simulated.kernel_cycles()
    return {
        "cycles": j.simulated.cycles,
        "read_bytes": counters["dram_read_bytes"],
        "written_bytes": counters["dram_write_bytes"],
        "launches": len(j.scheduled.record.launches.launches),
        "kernels": {
            kernel.kernel: {
                "cycles": cycles[kernel.kernel],
                "tile": _each(kernel.mapping.tile),
                "order": " ".join(kernel.mapping.order),
                "buffers": kernel.mapping.buffers,
                "cores": _each(kernel.mapping.cores),
            }
            for kernel in j.scheduled.record.kernels
        },
    }


def _each(sizes: dict[str, int]) -> str:
    return " ".join(f"{dim}={size}" for dim, size in sizes.items())


def read(name: str) -> dict[str, Any]:
    """The file of a program, without the day on which it was made."""
    given = json.loads(_file(name).read_text())
    del given["made"]
    return given


def write(name: str, made: dict[str, Any]) -> None:
    """Writes the file of a program with the day of today; one that says the same already keeps its own."""
    if _file(name).exists() and read(name) == made:
        return
    FOLDER.mkdir(exist_ok=True)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    _file(name).write_text(json.dumps({"made": today, **made}, indent=1) + "\n")


def _file(name: str) -> Path:
    return FOLDER / f"{name}.json"


def differences(before: Any, now: Any, where: str = "") -> Iterator[str]:
    """`tpu-v3 cycles: 1,000 -> 1,200 (+20.0%)`, a line for each figure that is another one."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in dict.fromkeys([*before, *now]):
            yield from differences(before.get(key), now.get(key), f"{where} {key}".strip())
    elif before != now:
        more = f" ({now / before - 1:+.1%})" if isinstance(before, int) and isinstance(now, int) and before else ""
        yield f"{where}: {_words(before)} -> {_words(now)}{more}"


def _words(value: Any) -> str:
    return "nothing" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
