"""Tests schedule anew, whatever a cache on this machine holds; those of the cache make their own.

Each test draws its random numbers from its own name: alone or among others, here or elsewhere, they are the same. Other
draws are made by the sweeps (`make fuzz`, `make right-results`).

Where they run side by side, each process computes on one thread: several that all want every core get in one another's
way. PyTorch and LLVM read this when they are loaded, so it is said before any test module is.
"""

from __future__ import annotations

import os
import random
import sys
import zlib

import pytest

os.environ["ATEN_WORKBENCH_KERNEL_CACHE"] = "off"
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(autouse=True)
def _numbers_of_its_own(request: pytest.FixtureRequest) -> None:
    seed = zlib.crc32(request.node.nodeid.encode())
    random.seed(seed)
    if "torch" in sys.modules:  # some tests look at what happens without it
        sys.modules["torch"].manual_seed(seed)


def pytest_addoption(parser: pytest.Parser) -> None:
    told = "write tests/golden/programs anew with today's cycles, bytes and tiles"
    parser.addoption("--rewrite-golden", action="store_true", help=told)
