"""The journeys in `notebooks/recorded`: they are what today's version makes, and open without PyTorch."""

from __future__ import annotations

from pathlib import Path

import pytest

import workbench as wb
from scripts import make_recorded
from tests.test_imports import run

FOLDER = Path(__file__).resolve().parents[2] / "notebooks" / "recorded"
NAMES = ("attention", "ffn", "resnet18", "softmax")
MOST_BYTES = 1_000_000
WITHOUT = "import sys\nsys.modules['torch'] = sys.modules['torch_mlir'] = None\nimport workbench as wb\n"


@pytest.fixture(scope="module")
def remade() -> dict[str, wb.Journey]:
    return make_recorded.journeys()


def test_every_program_is_recorded_and_each_file_is_small(remade: dict[str, wb.Journey]):
    files = sorted(FOLDER.glob("*.journey"))
    assert tuple(sorted(remade)) == NAMES == tuple(path.stem for path in files)
    assert max(path.stat().st_size for path in files) < MOST_BYTES


@pytest.mark.test_all
@pytest.mark.parametrize("name", NAMES)
def test_a_recording_is_what_the_script_makes_today(name: str, remade: dict[str, wb.Journey]):
    """After an intended change: python scripts/make_recorded.py."""
    kept, made = wb.load(FOLDER / f"{name}.journey"), remade[name]
    assert kept.lowered.record.kernels == made.lowered.record.kernels
    assert [each.mlir for each in kept.rendered.record] == [each.mlir for each in made.rendered.record]
    tiled, again = (journey.scheduled.record.kernels for journey in (kept, made))
    assert [each.mlir for each in tiled] == [each.mlir for each in again]
    assert kept.simulated.cycles == made.simulated.cycles and kept._stages.sources() == made._stages.sources()
    assert all(place.startswith("notebooks/recorded/programs.py:") for place in kept._stages.sources())


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("name", NAMES)
def test_a_recording_opens_without_pytorch(name: str, tmp_path: Path):
    path, page = FOLDER / f"{name}.journey", tmp_path / "page.html"
    code = f"""{WITHOUT}
from workbench.commands.cli import main
j = wb.load({str(path)!r})
lab = wb.lab({str(path)!r})
lab.selection = 3
print(j.simulated.cycles, lab.selection.spans, len(lab.static_html()) > 1000, len(j.findings) > 0)
print(main(["open", {str(path)!r}, "--to", {str(page)!r}, "--no-browser"]))
"""
    lines = run(code, blocked=()).splitlines()
    assert lines == [f"{wb.load(path).simulated.cycles} (3,) True True", str(page), "0"]
    assert 'id="record"' in page.read_text(encoding="utf-8")
