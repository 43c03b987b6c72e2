"""The BLAS is loaded with one thread, and leaves the environment as it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fresh_process import python
from workbench.ground.environment import blas_library
from workbench.ground.environment.blas_library import blas
from workbench.ground.environment.processor import processor

needs_blas = pytest.mark.skipif(blas(processor()) is None, reason="scipy-openblas32 has no library for this system")

LOADS = """
import os
from workbench.ground.environment.blas_library import blas
from workbench.ground.environment.processor import processor
threads = lambda: len(os.listdir("/proc/self/task"))
before, said = threads(), dict(os.environ)
assert blas(processor())
assert threads() == before and dict(os.environ) == said, (before, threads())
import torch
import workbench as wb
a = torch.randn(256, 256)
j = wb.trace(torch.mm, a, a)
expected = a @ a
assert torch.allclose(j.run(a, a), expected, atol=1e-3)
if child := os.fork():
    assert os.waitpid(child, 0)[1] == 0
else:
    os._exit(0 if torch.allclose(j.run(a, a), expected, atol=1e-3) else 1)
"""


@pytest.mark.test_all
@needs_blas
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted as Linux lists them")
def test_it_starts_no_thread_and_works_in_a_forked_child() -> None:
    python("-c", LOADS, OMP_NUM_THREADS="1")  # PyTorch's own threads do not live through a fork


@needs_blas
@pytest.mark.parametrize("before", [None, "3"])
def test_the_environment_stays(monkeypatch: pytest.MonkeyPatch, before: str | None) -> None:
    if before is None:
        monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    else:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", before)
    with blas_library._one_thread():
        assert os.environ["OPENBLAS_NUM_THREADS"] == "1"
    assert os.environ.get("OPENBLAS_NUM_THREADS") == before


def test_a_file_that_is_no_library_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "libscipy_openblas.so"
    broken.write_text("no library")
    monkeypatch.setattr(blas_library, "library_path", lambda: broken)
    blas_library._loaded.cache_clear()
    assert blas(processor()) is None
    blas_library._loaded.cache_clear()
