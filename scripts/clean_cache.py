"""Removes the caches of the workbench on disk: compiled kernels and the compiled simulator.

It removes only the folders that the workbench makes itself: `ATEN_WORKBENCH_CACHE` may be a folder with other files.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # runs without an environment, as after `make clean`

from simulator.errors import BadSetting
from simulator.files.cache_folder import user_cache

OURS = ("graphs", "kernels", "modules", "native", "tests", "verdicts", "numba-*")


def main() -> None:
    try:
        cache = user_cache()
    except BadSetting as error:
        sys.exit(str(error))
    for pattern in OURS:
        for folder in cache.glob(pattern):
            shutil.rmtree(folder)
            sys.stdout.write(f"removed {folder}\n")


if __name__ == "__main__":
    main()
