"""The first notebook, as a reader meets it: opened in JupyterLab in a browser, and run from top to bottom."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.browser import lab

NOTEBOOK = Path(__file__).resolve().parents[2] / "notebooks" / "00_start_here.ipynb"
BROWSER = lab.chromium()

pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no chromium here: apt-get install chromium")


def without_outputs(folder: Path, extra: str | None = None) -> Path:
    """A copy of the notebook that has never been run, so that every output seen is a new one."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    if extra is not None:
        notebook.cells = [nbformat.v4.new_code_cell(extra)]
    folder.mkdir()
    path = folder / "start.ipynb"
    nbformat.write(notebook, path)
    return path


def outputs(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [output for cell in cells for output in cell["outputs"]]


def test_all_cells_run_and_the_timeline_is_on_the_page(tmp_path: Path):
    assert BROWSER is not None
    kept = [cell for cell in nbformat.read(NOTEBOOK, as_version=4).cells if cell.cell_type == "code"]
    path = without_outputs(tmp_path / "notebooks")
    with lab.server(path.parent, tmp_path) as server, lab.page(BROWSER) as page:
        went_well, cells = lab.run_all(page, server.url(f"/doc/tree/{path.name}?reset"))
        pictures = page.locator(".jp-OutputArea-output img")
        pictures.first.scroll_into_view_if_needed()
        width = pictures.first.evaluate("async image => { await image.decode(); return image.naturalWidth }")
        page.screenshot(path=tmp_path / "start_here.png")
    assert [output for output in outputs(cells) if output["output_type"] == "error"] == []
    assert went_well
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(kept) + 1))
    shown = [bool(_lasting(cell["outputs"])) for cell in cells]
    assert shown == [bool(_lasting(cell.outputs)) for cell in kept], "cells show something where the reader sees it"
    assert width > 500
    assert (tmp_path / "start_here.png").stat().st_size > 20_000


def _lasting(outputs: list[Any]) -> list[Any]:
    """Outputs without progress lines."""
    return [output for output in outputs if output.get("name") != "stderr"]


def test_a_cell_that_fails_is_seen(tmp_path: Path):
    assert BROWSER is not None
    path = without_outputs(tmp_path / "notebooks", "import workbench as wb\nwb.machine('tpu-v33')")
    with lab.server(path.parent, tmp_path) as server, lab.page(BROWSER) as page:
        went_well, cells = lab.run_all(page, server.url(f"/doc/tree/{path.name}?reset"))
        (failed,) = outputs(cells)
    assert not went_well
    assert failed["ename"] == "MachineError" and "did you mean 'tpu-v3'" in failed["evalue"]
