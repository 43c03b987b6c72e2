"""Records the journeys in `notebooks/recorded/`, which open without PyTorch."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from types import ModuleType

import torch

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path("notebooks") / "recorded"
sys.path.insert(0, str(ROOT))

import workbench as wb  # noqa: E402


def journeys() -> dict[str, wb.Journey]:
    """Each program on a tpu-v3. Lines of Python are told by their place in the project, wherever that lies."""
    file, module = FOLDER / "programs.py", ModuleType("recorded_programs")
    sys.modules[module.__name__] = module  # where Dynamo looks names up
    exec(compile((ROOT / file).read_text(encoding="utf-8"), file.as_posix(), "exec"), module.__dict__)
    torch.manual_seed(0)
    with contextlib.chdir(ROOT):
        return {name: wb.trace(target, given) for name, (target, given) in module.programs().items()}


def main() -> None:
    for name, journey in journeys().items():
        path = ROOT / FOLDER / f"{name}.journey"
        journey.save(path)
        sys.stderr.write(f"{path.name}: {journey.simulated.cycles:,} cycles, {path.stat().st_size // 1024} KB\n")


if __name__ == "__main__":
    main()
