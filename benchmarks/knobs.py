"""Measures the time from a knob to the new cycles, by what takes it.

    python benchmarks/knobs.py
    python benchmarks/knobs.py --page

Each tile of each program's first kernel is turned to values that nobody has tried; the other kernels are read from
what is kept on disk. Seconds are those on the wall, and those of a processor where others work on the machine as well;
`schedule` and `simulate` are medians of the wall's.

With `--page` the same values are typed into the schedule editor in Chromium, and measured is from the key to the frame
that shows the new timeline: the pause after which a value counts as settled, the way to Python and back, and drawing
are then part of it. Messages go over HTTP, as there is no notebook around.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
os.environ["ATEN_WORKBENCH_CACHE"] = tempfile.mkdtemp()

import torch
import torch.nn.functional as F
from torch import nn

import workbench as wb
from workbench.exploring.knobs import Knobs
from workbench.models.resnet import resnet18
from workbench.models.shipped.gpt import GPT2

FFN = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256))
PROGRAMS: dict[str, tuple[Callable[..., object], tuple[torch.Tensor, ...]]] = {
    "softmax": (lambda x: torch.softmax(x, 1), (torch.randn(512, 512),)),
    "FFN": (FFN, (torch.randn(128, 256),)),
    "attention": (F.scaled_dot_product_attention, tuple(torch.randn(1, 4, 128, 64) for _ in range(3))),
    "GPT-2, 1 layer": (GPT2(layers=1).eval(), (torch.randint(0, 50257, (1, 64)),)),
    "ResNet-18": (resnet18().eval(), (torch.randn(1, 3, 224, 224),)),
}


_TYPE = """async ([knob, text]) => {
    const field = document.querySelector(`[data-knob="${knob}"] input[type=text]`);
    const place = document.querySelector('.kn-pictures'), before = place.dataset.step, began = performance.now();
    field.value = text;
    field.dispatchEvent(new Event('change'));
    while (place.dataset.step === before) await new Promise(requestAnimationFrame);
    return performance.now() - began;
}"""


def turns(knobs: Knobs) -> list[tuple[str, int]]:
    """Tiles a little smaller than today's: nobody has tried them."""
    return [
        (knob.name, value)
        for knob in knobs.knobs
        if knob.kind == "tile"
        for value in range(int(knob.value) - 3, int(knob.value))
        if value >= max(1, int(knob.value) // 2)
    ]


def in_page() -> None:
    from tests.browser import chromium
    from tests.jupyter.live import live

    print(f"{'program':<16}   spans  turns  from key to picture: median     worst  CPU of Python")
    for name, (function, inputs) in PROGRAMS.items():
        j = wb.trace(function, *inputs)
        kernel = j.scheduled.kernels[0].name
        widget = j.knobs(kernel).widget()
        with live(widget) as address, chromium.running() as opened:
            page = opened.new_page(viewport={"width": 1280, "height": 1000})
            page.goto(address)
            page.wait_for_selector('.kn-pictures[data-step="0"]')
            took, busy = list[float](), list[float]()
            for knob, value in turns(j.knobs(kernel)):
                worked = time.process_time()
                took.append(page.evaluate(_TYPE, [knob, str(value)]))
                busy.append(1e3 * (time.process_time() - worked))
                page.wait_for_selector(".kn-figure b:text('went')")  # nobody turns faster than they read
            spans = len(widget.journey.simulated.record)
        widget.close()
        times = f"{statistics.median(took):>26.0f} ms {max(took):>6.0f} ms {statistics.median(busy):>11.0f} ms"
        print(f"{name:<16} {spans:>7,} {len(took):>6} {times}", flush=True)


def main() -> None:
    if "--page" in sys.argv:
        in_page()
        return
    print(f"{'program':<16} kernels   spans  turns    median     worst       CPU  schedule  simulate")
    for name, (function, inputs) in PROGRAMS.items():
        j = wb.trace(function, *inputs)
        _ = j.simulated
        knobs = j.knobs(j.scheduled.kernels[0].name)
        took, busy, parts, spans = list[float](), list[float](), list[dict[str, float]](), list[int]()
        for knob, value in turns(knobs):
            began, worked = time.perf_counter(), time.process_time()
            made = knobs.turned(knob, value)
            _ = made.simulated.cycles
            took.append(time.perf_counter() - began)
            busy.append(time.process_time() - worked)
            parts.append(made.seconds)
            spans.append(len(made.simulated.record))
        middle = {stage: statistics.median(each[stage] for each in parts) for stage in ("schedule", "simulate")}
        told = " ".join(
            f"{1e3 * each:>6.0f} ms" for each in (statistics.median(took), max(took), statistics.median(busy))
        )
        stages = " ".join(f"{1e3 * each:>6.0f} ms" for each in middle.values())
        count = len(j.scheduled.kernels)
        print(f"{name:<16} {count:>7} {max(spans):>7,} {len(took):>6} {told} {stages}", flush=True)


if __name__ == "__main__":
    main()
