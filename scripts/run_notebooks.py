"""Runs every notebook of the course from top to bottom and keeps its outputs in the file, for readers.

It leaves out everything that differs from run to run without meaning: execution times, output of libraries on stderr,
and the exact Python version. It also leaves out the state of widgets, which an opened notebook would show instead of
their current state.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"


def run(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(FOLDER)}}
    client = NotebookClient(notebook, timeout=600, kernel_name="python3", resources=where, store_widget_state=False)
    client.execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    notebook.metadata["language_info"] = {"name": "python"}
    nbformat.write(notebook, path)


def main() -> None:
    for path in sorted(FOLDER.glob("*.ipynb")):
        run(path)
        sys.stderr.write(f"{path.name}: {path.stat().st_size // 1024} KB\n")


if __name__ == "__main__":
    main()
