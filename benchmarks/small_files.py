"""python benchmarks/small_files.py

Seconds of processor and megabytes to open and to show journeys whose files are small and whose parts are not: texts
that are long runs of one letter, texts of many lines, runs of thousands of equal tiles. Each way to show one is a
process of its own.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import torch

import workbench as wb

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.crafted.craft import _members, _zipped  # noqa: E402
from tests.crafted.opening import in_a_child  # noqa: E402

SECONDS = 600.0
"""Of processor, for each way."""

WAYS: dict[str, Callable[[wb.Journey], object]] = {
    "wb.load": lambda journey: journey,
    "to_html": lambda journey: journey.to_html("page.html"),
    "findings": lambda journey: journey.findings.table,
    "knobs": lambda journey: journey.knobs().table,
    "j.widget()": lambda journey: journey.widget()._repr_mimebundle_(),
    "page of the lab": lambda journey: journey.to_html("lab.html", interactive=True),
}


def with_text(whole: bytes, text: str) -> bytes:
    """The file with this behind the MLIR of every kernel, at every stage."""
    members = _members(whole)
    for name in ("rendered.json", "scheduled.json"):
        found = json.loads(members[name])
        for kernel in found if isinstance(found, list) else found["kernels"]:
            kernel["mlir"] = kernel["mlir"] + text
        members[name] = json.dumps(found).encode()
    return _zipped(members)


def files(folder: Path) -> dict[str, bytes]:
    """The files, by what is much in them."""
    path = folder / "made.journey"
    wb.trace(lambda x: torch.relu(x) + 1, torch.randn(16, 16), machine="edge-8x8").save(path)
    plain = path.read_bytes()
    wb.trace(torch.softmax, torch.randn(16384, 512), 1, machine="edge-8x8").save(path)
    return {
        "nothing: two small ops": plain,
        "a line of a million spaces": with_text(plain, "// " + " " * 1_000_000 + "x\n"),
        "200,000 lines": with_text(plain, "//\n" * 200_000),
        "two million lines": with_text(plain, "//\n" * 2_000_000),
        "8,192 equal tiles": path.read_bytes(),
    }


def measured(path: Path, way: Callable[[wb.Journey], object]) -> str:
    """Seconds and megabytes of a child, or the class of the error that it was told."""

    def look() -> set[str]:
        way(wb.load(path))
        return set()

    found = in_a_child(look, SECONDS)
    if found["outcome"] == "shown":
        return f"{found['seconds']:.1f} s, {found['mb']:.0f} MB"
    return found["told"].partition(":")[0] if found["outcome"] == "told" else found["outcome"]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        sys.stdout.write(
            "| much | file | unpacked | " + " | ".join(WAYS) + " |\n|---|" + "---:|" * (2 + len(WAYS)) + "\n"
        )
        for name, data in files(Path(folder)).items():
            path = Path(folder) / "crafted.journey"
            path.write_bytes(data)
            with zipfile.ZipFile(io.BytesIO(data)) as file:
                unpacked = sum(each.file_size for each in file.infolist())
            cells = [f"{len(data) / 1e3:.0f} kB", f"{unpacked / 1e6:.1f} MB"]
            cells += [measured(path, way) for way in WAYS.values()]
            sys.stdout.write(f"| {name} | {' | '.join(cells)} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
