"""Measures how fast the lab opens on a whole network, and a press shows in all lists, in JupyterLab in Chromium.

    python benchmarks/lab_open.py [--json]

For a softmax, ResNet-50 (images of 64 x 64) and GPT-2 (12 layers, 64 tokens), all stages made:

1. `rows` and `all`: seconds from running the cell `j.widget()` to the first rows, and to the rows of the last list.
2. `highlight`: milliseconds from a press on a row to the frame that shows what is selected, the median and the most.

The exit status is 1 when a bound is not kept: a second to open; for the highlight 100 and 300 ms, of the median, since
other work of the machine counts too.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import nbformat
from playwright.sync_api import Page

from tests.browser import chromium, lab

MOST_TO_OPEN = 1.0
MOST_TO_HIGHLIGHT = {"softmax": 100.0, "ResNet-50": 300.0, "GPT-2": 300.0}
TIMES = 5
DRAWN_MILLISECONDS = 1000  # who presses something has seen it: the timeline is drawn after the rows

_MODELS = {
    "softmax": "j = wb.trace(torch.softmax, torch.randn(512, 512), 1)",
    "ResNet-50": "j = wb.trace(with_statistics(resnet50()).eval(), torch.randn(1, 3, 64, 64))",
    "GPT-2": "j = wb.trace(GPT2().eval(), torch.randint(0, 50257, (1, 64)))",
}
_SETUP = """import torch, workbench as wb
from workbench.models.resnet import resnet50
from workbench.models.seeded import with_statistics
from workbench.models.shipped.gpt import GPT2
"""

_OPEN = """async () => {
    for (const old of document.querySelectorAll('.wb-lab')) old.classList.add('old');
    jupyterapp.shell.currentWidget.content.activeCellIndex = 1;
    const began = performance.now();
    jupyterapp.commands.execute('notebook:run-cell');
    const seconds = [];
    for (const list of ['python', 'spans']) {
        while (!document.querySelector(`.wb-lab:not(.old) .list.of-${list} .row`)) {
            await new Promise(done => setTimeout(done, 2));
        }
        seconds.push((performance.now() - began) / 1000);
    }
    return seconds;
}"""

_PRESS = """async ([list, row]) => {
    const rows = document.querySelectorAll(`.wb-lab .list.of-${list} .row`);
    const what = document.querySelector('.wb-lab .what');
    const before = what.textContent, began = performance.now();
    rows[row].click();
    while (what.textContent === before) await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);  // the lists are drawn
    const took = performance.now() - began;
    await new Promise(done => setTimeout(done, 300));  // nobody presses faster, and arrows are still looked for
    return took;
}"""


def measured(page: Page, server: lab.Server, folder: Path, name: str) -> dict[str, float]:
    cells = [
        nbformat.v4.new_code_cell(code) for code in (f"{_SETUP}{_MODELS[name]}\nj.simulated;", "w = j.widget()\nw")
    ]
    nbformat.write(lab.notebook(*cells), folder / "open.ipynb")
    went_well, _ = lab.run_all(page, server.url("/doc/tree/open.ipynb?reset"))
    assert went_well
    page.wait_for_selector(".wb-lab .list.of-spans .row")
    opened = [page.evaluate(_OPEN) for _ in range(TIMES)]
    page.wait_for_timeout(DRAWN_MILLISECONDS)
    pressed = [page.evaluate(_PRESS, [each, turn]) for turn in range(TIMES) for each in ("spans", "instructions")]
    lab.shut_down(page)
    return {
        "rows": statistics.median(first for first, _ in opened),
        "all": statistics.median(last for _, last in opened),
        "highlight": statistics.median(pressed),
        "highlight_most": max(pressed),
    }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if chromium.executable() is None:
        raise SystemExit(chromium.MISSING)
    with (
        tempfile.TemporaryDirectory() as scratch,
        tempfile.TemporaryDirectory() as folder,
        lab.server(Path(folder), Path(scratch)) as server,
        lab.browser() as browser,
        lab.page(browser) as page,
    ):
        found = {name: measured(page, server, Path(folder), name) for name in _MODELS}
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        for name, each in found.items():
            print(f"{name:<12}" + "".join(f"{key} {value:,.2f}   " for key, value in each.items()))
    kept = all(each["all"] < MOST_TO_OPEN and each["highlight"] < MOST_TO_HIGHLIGHT[n] for n, each in found.items())
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
