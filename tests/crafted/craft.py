"""Crafted files: a saved journey with something changed, and its checksums made right again where that is possible.

What is changed is drawn from a seed, so that a file is made again by its number.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Members = dict[str, bytes]

MARK = "<script>alert(1)</script>"
"""Stands in some texts: no page may hold it as it is."""

_ODD: tuple[Any, ...] = (
    *(-1, 0, 1, 5, 7, 255, 2**31 - 1, 2**31, 2**53, 2**62, 2**63, 10**30, -(2**63), 1e308, 0.5),
    *(None, True, "", "x", MARK, "\ud800", "\0", "aten.relu.default", "a" * 5000, [], {}, [[]], {"float": "nan"}),
)
CANARY = "crafted-canary"
"""Stands in the paths of some texts: no file of such a name may come to be."""

_INTERPRETED = """transform.named_sequence @__transform_main(%root: !transform.any_op {{transform.readonly}}) {{
  {0}
  transform.yield
}}"""
SCRIPTS = tuple(
    _INTERPRETED.format(body)
    for body in (
        'transform.print %root {name = "x"} : !transform.any_op',
        '%f = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op\n'
        '  %g = transform.apply_registered_pass "snapshot-op-locations" with options = {"filename" = "%CANARY%"} to %f '
        ": (!transform.any_op) -> !transform.any_op",
        "transform.include @__transform_main failures(propagate) (%root) : (!transform.any_op) -> ()",
        '%f = transform.structured.match ops{["linalg.generic"]} in %root : (!transform.any_op) -> !transform.any_op\n'
        "  transform.apply_cse to %root : !transform.any_op",
    )
)
"""Transform scripts: most of them do more than transform, the last one does not."""
PIPELINES = (
    *("snapshot-op-locations{filename=%CANARY%}", "func.func(canonicalize),snapshot-op-locations{filename=%CANARY%}"),
    *("builtin.module(func.func(print-ir{label=x}))", "transform-preload-library{transform-library-paths=%CANARY%}"),
    *("view-op-graph", "npu-attach-script{" + SCRIPTS[0] + "}", "canonicalize", "canonicalize{test-convergence=true}"),
    *("cse)", "canonicalize{", "inline{op-pipelines={func.func(snapshot-op-locations{filename=%CANARY%})}}"),
)
PATHS = (
    "%CANARY%",
    "../../%CANARY%",
    "/etc/passwd",
    "/dev/zero",
    "~/.ssh/id_rsa",
    "file:///etc/passwd",
    "%CANARY%.toml",
)
_CODES = (
    "x=1)\nopen('%CANARY%','w')\ndef f(in0=0,in1=0):\n    dict(y", "__import__('os').system('touch %CANARY%')",
    "{0.__class__}", "%s%n%p", "$(touch %CANARY%)", "load_library.__call__.__call__", "aten.from_file.default",
    "func.func @x() { return }", "loc(callsite(\"a\" at \"b\"))", "#transform.script", "\x1b]0;x\x07", "\u202e",
)  # fmt: skip
_RUNS = tuple(letter * count for letter in (" ", "(", "a", "<", "*", "\n", "[a") for count in (200, 20_000))
_TEXTS = (*SCRIPTS, *PIPELINES, *PATHS, *_CODES, *_RUNS, MARK, f"'\"><img src=x onerror=alert(1)>{MARK}")

_JSONS = ("lowered.json", "rendered.json", "scheduled.json")


def crafted(original: bytes, seed: int) -> tuple[str, bytes]:
    """Returns the name of a change and the changed file."""
    draw = random.Random(seed)
    way = draw.choices([*_WAYS], [weight for _, weight in _WAYS.values()])[0]
    return way, _WAYS[way][0](original, draw)


def crafted_texts(original: bytes, seed: int) -> tuple[str, bytes]:
    """The same for texts alone, which all look like ones that something might read, run or open."""
    draw = random.Random(seed)
    way = draw.choice([_texts, _options])
    return way.__name__.strip("_"), way(original, draw)


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


def _text(draw: random.Random) -> str:
    return draw.choice(_TEXTS).replace("%CANARY%", draw.choice([CANARY, f"/tmp/{CANARY}"]))


def _texts(data: bytes, draw: random.Random) -> bytes:
    """Texts of records, and names that things go by: in one place, or wherever the same text stands."""
    members = _members(data)
    name = draw.choice([*_JSONS, *_JSONS, "journey.json"])
    for _ in range(draw.choice([1, 1, 3])):
        found = json.loads(members[name])
        places = [*_places(found)]
        inside, key, is_key = draw.choice(places)
        old, new = key if is_key else inside[key], _text(draw)
        if old and draw.random() < 0.5:  # as a name, which all that speak of it still know
            told, tells = json.dumps(old).encode(), json.dumps(new).encode()
            members |= {each: members[each].replace(told, tells) for each in _JSONS}
            continue
        if is_key:
            inside[new] = inside.pop(key)
        else:
            inside[key] = draw.choice([new, new, old + new, new + old])
        members[name] = _json(found)
    return _zipped(members)


def _places(found: Any) -> Iterator[tuple[Any, Any, bool]]:
    """(what holds it, its key, whether the key is the text) of each text in nested lists and objects."""
    items = found.items() if isinstance(found, dict) else enumerate(found)
    for key, item in list(items):
        if isinstance(key, str):
            yield found, key, True
        if isinstance(item, str):
            yield found, key, False
        elif isinstance(item, (dict, list)):
            yield from _places(item)


def _options(data: bytes, draw: random.Random) -> bytes:
    """Changes the options of the journey, which repeating a stage asks for again."""
    members = _members(data)
    manifest, lowered = json.loads(members["journey.json"]), json.loads(members["lowered.json"])
    kernels = [kernel["name"] for kernel in lowered["kernels"]]
    steps = ["tile and fuse", "clean up", "bufferize", "fuse elementwise", "open named ops", _text(draw)]
    one = {
        "passes": lambda: {draw.choice(steps): draw.choice([_text(draw), draw.choice(PIPELINES), [_text(draw)]])},
        "schedule": lambda: {draw.choice(["*", *kernels, _text(draw)]): draw.choice([*SCRIPTS, _text(draw)])},
        "mapping": lambda: {
            draw.choice(["*", *kernels, _text(draw)]): {"tile": {_text(draw): 4}, "order": [_text(draw)]}
        },
        "fusion": lambda: draw.choice([{"off": [_text(draw)]}, [[_text(draw), _text(draw)]], _text(draw)]),
        "resident": lambda: [_text(draw)],
        "placement": lambda: {_text(draw): draw.choice([0, "local"])},
        "layout": lambda: draw.choice([{_text(draw): [1, 0]}, _text(draw)]),
    }
    for name in draw.sample([*one], draw.choice([1, 1, 2])):
        manifest["options"][name] = json.loads(json.dumps(one[name]()).replace("%CANARY%", f"/tmp/{CANARY}"))
    if draw.random() < 0.2:
        manifest["options"][draw.choice(["capture", "on_missing", "prefer"])] = _text(draw)
    members["journey.json"] = _json(manifest)
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
