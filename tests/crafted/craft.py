"""Crafted files: a saved journey with something changed, and its checksums made right again where that is possible.

What is changed is drawn from a seed, so that a file is made again by its number.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

Members = dict[str, bytes]

MARK = "<script>alert(1)</script>"
"""Stands in some texts: no page may hold it as it is."""

_ODD: tuple[Any, ...] = (
    *(-1, 0, 1, 5, 7, 255, 2**31 - 1, 2**31, 2**53, 2**62, 2**63, 10**30, -(2**63), 1e308, 0.5),
    *(None, True, "", "x", MARK, "\ud800", "\0", "aten.relu.default", "a" * 5000, [], {}, [[]], {"float": "nan"}),
)
_JSONS = ("lowered.json", "rendered.json", "scheduled.json")


def crafted(original: bytes, seed: int) -> tuple[str, bytes]:
    """What was done, and the file."""
    draw = random.Random(seed)
    way = draw.choices([*_WAYS], [weight for _, weight in _WAYS.values()])[0]
    return way, _WAYS[way][0](original, draw)


def _members(data: bytes) -> Members:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name: file.read(name) for name in file.namelist()}


def _zipped(members: Members, *, resign: bool = True) -> bytes:
    if resign:
        manifest = json.loads(members["journey.json"])
        manifest.pop("checksum", None)
        manifest["members"] = {
            name: hashlib.sha256(data).hexdigest() for name, data in members.items() if name != "journey.json"
        }
        manifest["checksum"] = hashlib.sha256(_json(manifest)).hexdigest()
        members = {**members, "journey.json": _json(manifest)}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return out.getvalue()


def _json(data: object) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode()


def _bytes(data: bytes, draw: random.Random) -> bytes:
    """The file's own bytes: some changed, some gone, some put in."""
    changed = bytearray(data)
    for _ in range(draw.choice([1, 1, 3, 20])):
        at = draw.randrange(len(changed))
        kind = draw.randrange(3)
        if kind == 0:
            changed[at] = draw.randrange(256)
        elif kind == 1:
            del changed[at : at + draw.choice([1, 8, 300])]
        else:
            changed[at:at] = draw.randbytes(draw.choice([1, 16]))
        changed = changed or bytearray(b"P")
    return bytes(changed)


def _zip(data: bytes, draw: random.Random) -> bytes:
    """The zip around the members: more of them, one twice, one packed otherwise, one that says it is shorter."""
    members, kind = _members(data), draw.randrange(6)
    name = draw.choice([*members])
    if kind == 0:
        return _zipped({**members, draw.choice(["extra", "../../up", "programs/99.npz", "a/"]): b"0" * 50_000_000})
    if kind == 1:
        members[name] = members[name] + bytes(draw.choice([1, 1000, 100_000_000]))
        return _zipped(members, resign=name != "journey.json")
    if kind == 2:
        out = io.BytesIO(data)
        with zipfile.ZipFile(out, "a") as file:
            file.writestr(name, members[name])
        return out.getvalue()
    if kind == 3:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", draw.choice([zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])) as file:
            for each, content in members.items():
                file.writestr(each, content)
        return out.getvalue()
    if kind == 4:
        members.pop(name)
        return _zipped(members, resign="journey.json" in members)
    large = _zipped({**members, name: bytes(200_000_000)}, resign=name != "journey.json")
    said = (200_000_000).to_bytes(4, "little")
    return large.replace(said, (draw.choice([10, 1000])).to_bytes(4, "little"))


def _records(data: bytes, draw: random.Random) -> bytes:
    """A leaf, an item or a key of a record."""
    members = _members(data)
    name = draw.choice([*_JSONS, *_JSONS, "journey.json"])
    found = json.loads(members[name])
    for _ in range(draw.choice([1, 1, 1, 2])):
        _change(found, draw)
    members[name] = _json(found)
    return _zipped(members)


def _deep(data: bytes, draw: random.Random) -> bytes:
    """Something nested more deeply than anything can be called."""
    members, depth = _members(data), draw.choice([50, 150, 900, 5_000, 200_000])
    name = draw.choice([*_JSONS, "journey.json"])
    text = members[name].decode()
    at = draw.choice([place for place, letter in enumerate(text) if letter in ":["]) + 1
    members[name] = (text[:at] + "[" * depth + "]" * depth + draw.choice(["", ","]) + text[at:]).encode()
    resign = name != "journey.json"
    return _zipped(members, resign=resign)


def _change(found: Any, draw: random.Random) -> None:
    """Changes one thing somewhere in nested lists and objects, in place."""
    way: list[tuple[Any, Any]] = []
    here = found
    while isinstance(here, (dict, list)) and here and (not way or draw.random() < 0.9):
        key = draw.choice([*here]) if isinstance(here, dict) else draw.randrange(len(here))
        way.append((here, key))
        here = here[key]
    inside, key = way[-1]
    kind = draw.randrange(6)
    if kind == 0 and isinstance(inside, dict):
        inside.pop(key)
    elif kind == 1 and isinstance(inside, list):
        inside.insert(key, inside[draw.randrange(len(inside))])
    elif kind == 2 and isinstance(inside, list):
        draw.choice([inside.reverse, lambda: inside.pop(key)])()
    elif kind == 3 and isinstance(inside, dict):
        inside[draw.choice(["more", MARK, "is"])] = draw.choice(_ODD)
    elif isinstance(here, int) and not isinstance(here, bool) and draw.random() < 0.5:
        inside[key] = here + draw.choice([-1, 1, 7, 1000])
    elif isinstance(here, str) and draw.random() < 0.5:
        inside[key] = draw.choice([here + "x", here[::-1], here[: len(here) // 2], here.replace("0", "9"), MARK + here])
    else:
        inside[key] = draw.choice(_ODD)


def _arrays(data: bytes, draw: random.Random) -> bytes:
    """Numbers, shapes and headers of the trace and the programs."""
    members = _members(data)
    name = draw.choice([each for each in members if each.endswith(".npz")])
    with np.load(io.BytesIO(members[name])) as file:
        arrays: dict[str, Any] = {each: file[each] for each in file.files}
    for _ in range(draw.choice([1, 1, 2])):
        if draw.random() < 0.25:
            header = json.loads(arrays["header"].tobytes())
            _change(header, draw)
            arrays["header"] = np.frombuffer(_json(header), np.uint8)
        else:
            _change_array(arrays, draw)
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    members[name] = out.getvalue()
    return _zipped(members)


def _change_array(arrays: dict[str, Any], draw: random.Random) -> None:
    name = draw.choice([each for each in arrays if each != "header"])
    array, kind = arrays[name].copy(), draw.randrange(8)
    if kind == 0:
        arrays.pop(name)
    elif kind == 1:
        arrays[name] = draw.choice([array[:-1], array.astype(np.float64), array[None], np.concatenate([array, array])])
    elif kind == 2 and array.size > 1:
        arrays[name] = array[::-1].copy()
    elif array.size:
        flat = array.reshape(-1)
        for _ in range(draw.choice([1, 1, 1, 5])):
            at = draw.randrange(flat.size)
            odd = draw.choice(
                [0, 1, 2, 5, 9, 100, 2**31 - 1, 2**40, 2**62, -1, -5, int(flat[at]) + 1, int(flat[at]) - 1]
            )
            limits = (0, 1) if array.dtype == bool else (np.iinfo(array.dtype).min, np.iinfo(array.dtype).max)
            flat[at] = min(max(odd, int(limits[0])), int(limits[1]))
        arrays[name] = array


def _bomb(data: bytes, draw: random.Random) -> bytes:
    """Much in little: an array that says it is huge, numbers that unpack to hundreds of megabytes."""
    members, kind = _members(data), draw.randrange(3)
    name = draw.choice([each for each in members if each.endswith(".npz")])
    with np.load(io.BytesIO(members[name])) as file:
        arrays: dict[str, Any] = {each: file[each] for each in file.files}
    out = io.BytesIO()
    if kind == 0:
        some = draw.choice([*arrays])
        arrays[some] = np.zeros(draw.choice([10**7, 3 * 10**8]), np.uint8)
        np.savez_compressed(out, **arrays)
    elif kind == 1:
        np.savez_compressed(out, **arrays)
        with zipfile.ZipFile(out, "a", zipfile.ZIP_DEFLATED) as file:
            header = b"{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000,), }"
            header += b" " * (118 - 1 - len(header)) + b"\n"
            file.writestr("more.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    else:
        header = json.loads(arrays["header"].tobytes())
        header["more"] = "x" * 250_000_000
        arrays["header"] = np.frombuffer(_json(header), np.uint8)
        np.savez_compressed(out, **arrays)
    members[name] = out.getvalue()
    return _zipped(members)


_WAYS: dict[str, tuple[Callable[[bytes, random.Random], bytes], float]] = {
    "bytes": (_bytes, 10),
    "zip": (_zip, 7),
    "records": (_records, 40),
    "deep": (_deep, 4),
    "arrays": (_arrays, 36),
    "bomb": (_bomb, 3),
}
