"""The store of bytes: whole entries or none, bounded, under crowds, kills and damage; never an error."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from pathlib import Path

import pytest

from workbench.ground.environment.disk_store import Store
from workbench.ground.errors import CacheWarning
from workbench.scheduling.kernel_store import default_store

ROOT = Path(__file__).parents[3]


def entry(store: Store) -> Path:
    (path,) = store.folder.glob("*.entry")
    return path


def python(code: str, *args: object) -> subprocess.Popen[bytes]:
    """Another process at work on a store; it needs no MLIR and starts quickly."""
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, args)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def content(key: str, size: int = 40_000) -> bytes:
    """The content of a key, computed from it: any process can tell if it read the right one."""
    return random.Random(key).randbytes(size)


def test_what_was_put_is_got(tmp_path: Path):
    store = Store(tmp_path / "not" / "there" / "yet")
    assert store.get("a") is None
    store.put("a", b"first")
    store.put("b", b"")
    assert (store.get("a"), store.get("b"), store.get("c")) == (b"first", b"", None)
    assert (store.hits, store.misses, store.writes) == (2, 2, 2)
    store.put("a", b"second")
    assert Store(store.folder).get("a") == b"second"


def test_clear_leaves_nothing_and_other_files_alone(tmp_path: Path):
    store = Store(tmp_path)
    store.put("a", b"1")
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / ".writing-left").write_bytes(b"half")
    store.clear()
    assert store.get("a") is None
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


DAMAGE = {
    "empty": lambda data: b"",
    "cut short": lambda data: data[: len(data) // 2],
    "one byte missing": lambda data: data[:-1],
    "one byte more": lambda data: data + b"x",
    "one bit changed in the body": lambda data: data[:-3] + bytes([data[-3] ^ 1]) + data[-2:],
    "one bit changed in the checksum": lambda data: data[:30] + bytes([data[30] ^ 1]) + data[31:],
    "of another version": lambda data: data.replace(b"store 1\n", b"store 2\n", 1),
    "of another program": lambda data: b"PK\x03\x04" + data,
    "zeros after a power cut": lambda data: bytes(len(data)),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_entry_is_absent_and_replaced(tmp_path: Path, damage: str):
    store = Store(tmp_path)
    store.put("a", content("a"))
    path = entry(store)
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    assert store.get("a") is None
    store.put("a", content("a"))
    assert store.get("a") == content("a")


def test_an_entry_copied_to_another_key_is_absent(tmp_path: Path):
    store, other = Store(tmp_path / "one"), Store(tmp_path / "two")
    store.put("a", b"1")
    other.put("b", b"2")
    shutil.copy(entry(store), entry(other))
    assert other.get("b") is None


def test_what_was_unused_longest_goes_first(tmp_path: Path):
    store = Store(tmp_path, limit_bytes=5_000)
    for age, key in enumerate("abcd"):
        store.put(key, content(key, 1_000))
        path = max(tmp_path.glob("*.entry"), key=lambda each: each.stat().st_mtime_ns)
        os.utime(path, (time.time() - 100 + age,) * 2)
    assert store.get("a") is not None  # used now
    store.put("e", content("e", 1_000))
    assert [key for key in "abcde" if store.get(key) is None] == ["b"]
    assert store.bytes <= 5_000


def test_the_bound_is_the_user_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert Store(tmp_path).limit_bytes == 256 << 20
    monkeypatch.setenv("ATEN_WORKBENCH_KERNEL_CACHE", "on")
    monkeypatch.setenv("ATEN_WORKBENCH_CACHE_MB", "0.01")
    monkeypatch.setenv("ATEN_WORKBENCH_CACHE", str(tmp_path / "mine"))
    store = default_store()
    assert store is not None and store.store.limit_bytes == 10_485
    for number in range(30):
        store.store.put(str(number), content(str(number), 1_000))
    assert 9_000 < store.store.bytes <= 10_485 and store.store.get("29") is not None


def test_the_bound_holds_and_abandoned_files_go(tmp_path: Path):
    store = Store(tmp_path, limit_bytes=10_000)
    left = tmp_path / ".writing-abandoned"
    left.write_bytes(b"half")
    os.utime(left, (time.time() - 7200,) * 2)
    for number in range(50):
        store.put(str(number), content(str(number), 900))
        assert store.bytes <= 10_000
    assert not left.exists()
    assert store.entries in (9, 10)
    assert store.get("49") is not None


def test_the_folder_is_looked_through_once_for_many_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """With thousands of entries that takes longer than compiling a kernel; a full store makes room for several."""
    looked: list[int] = []
    whole = Store._files
    monkeypatch.setattr(Store, "_files", lambda self: looked.append(1) or whole(self))
    store = Store(tmp_path, limit_bytes=200_000)
    for number in range(600):
        store.put(str(number), content(str(number), 900))
    assert len(looked) < 300
    assert 180_000 < store.bytes <= 200_000


def test_an_entry_larger_than_the_store_is_not_kept(tmp_path: Path):
    store = Store(tmp_path, limit_bytes=100)
    store.put("a", content("a", 1_000))
    assert store.bytes == 0
    assert store.get("a") is None


def test_a_folder_that_cannot_be_is_one_warning(tmp_path: Path):
    (tmp_path / "file").write_text("not a folder")
    store = Store(tmp_path / "file" / "kernels")
    assert store.get("a") is None
    with pytest.warns(CacheWarning, match="Set ATEN_WORKBENCH_CACHE to another folder"):
        store.put("a", b"1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.put("b", b"2")
        assert store.get("a") is None
        store.clear()
    assert (store.entries, store.bytes, store.writes) == (0, 0, 0)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_still_reads(tmp_path: Path):
    Store(tmp_path).put("a", b"1")
    tmp_path.chmod(0o500)
    try:
        store = Store(tmp_path)
        assert store.get("a") == b"1"
        with pytest.warns(CacheWarning):
            store.put("b", b"2")
    finally:
        tmp_path.chmod(0o700)


WRITER = """
    import random, sys
    from pathlib import Path
    from workbench.ground.environment.disk_store import Store
    folder, keys, size, limit, rounds = Path(sys.argv[1]), int(sys.argv[2]), *map(int, sys.argv[3:6])
    store = Store(folder, limit)
    order = random.Random()
    print("ready", flush=True)
    wrong = found = 0
    for _ in range(rounds):
        key = str(order.randrange(keys))
        right = random.Random(key).randbytes(size)
        got = store.get(key)
        wrong += got not in (None, right)
        found += got == right
        store.put(key, right)
    print(wrong, found, flush=True)
"""


@pytest.mark.test_all
def test_two_processes_at_the_same_keys(tmp_path: Path):
    """Both write, read, replace and drop the same entries all the time: every answer is whole and right, or none."""
    limit = 6 * 41_000
    workers = [python(WRITER, tmp_path, 10, 40_000, limit, 600) for _ in range(2)]
    for worker in workers:
        out, err = worker.communicate(timeout=120)
        assert worker.returncode == 0, err.decode()
        assert err == b""
        wrong, found = map(int, out.split()[1:])
        assert wrong == 0
        assert found > 60
    assert Store(tmp_path).bytes <= limit
    assert not list(tmp_path.glob(".writing-*"))


SLOW_WRITER = """
    import os, random, sys, time
    from pathlib import Path
    from workbench.ground.environment.disk_store import Store

    class Slow:
        def __init__(self, handle): self.file = os.fdopen(handle, "wb", buffering=0)
        def __enter__(self): return self
        def __exit__(self, *_): self.file.close()
        def write(self, data):
            for start in range(0, len(data), 4096):
                self.file.write(data[start:start + 4096])
                time.sleep(0.002)

    class SlowOs:
        fdopen = staticmethod(lambda handle, mode: Slow(handle))
        def __getattr__(self, name): return getattr(os, name)

    import workbench.ground.environment.disk_store as module
    module.os = SlowOs()
    store = Store(Path(sys.argv[1]))
    contents = {str(key): random.Random(str(key)).randbytes(40_000) for key in range(4)}
    print("ready", flush=True)
    while True:
        for key, data in contents.items():
            store.put(key, data)
"""


@pytest.mark.test_all
def test_killed_in_the_middle_of_writing_again_and_again(tmp_path: Path):
    """Whatever moment the kill hits: what is there afterwards is whole and right. Writing is slowed down to be hit."""
    moments, half_written, kept = random.Random(0), 0, 0
    for _ in range(10):
        worker = python(SLOW_WRITER, tmp_path)
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"ready\n"
        time.sleep(moments.uniform(0.0, 0.2))
        worker.send_signal(signal.SIGKILL)
        worker.communicate(timeout=60)
        half_written += len(list(tmp_path.glob(".writing-*")))
        store = Store(tmp_path)
        for key in map(str, range(4)):
            got = store.get(key)
            assert got in (None, content(key))
            kept += got is not None
        store.clear()
    assert half_written >= 5, "hardly a kill hit a write, so this tests nothing"
    assert kept
