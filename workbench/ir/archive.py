"""A whole journey in one file: all its records, no weights, and nothing that needs PyTorch to be read.

The file is a zip. `journey.json` names the format and version, and has the journey's options, a checksum of every other
member, and a checksum of itself. The other members are the records as JSON, and the tile programs and the trace in
their own formats. A file that cannot be understood as a whole is refused; each reason has an error of its own.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from simulator.did_you_mean import not_there
from simulator.errors import FileFormatError, NoFile, SimulatorError
from simulator.files import regular_files, unpacking
from simulator.files.versioned_files import replace_file
from simulator.machine.machine import Machine
from simulator.tileprogram.program import TileProgram
from simulator.trace.trace import Trace
from workbench.ground.errors import (
    JourneyFileEdited,
    JourneyFileForeign,
    JourneyFileTooLarge,
    JourneyFileTruncated,
    JourneyFileVersion,
    JourneyNotSaved,
)
from workbench.ir import codec, graph_checks, scheduled_checks
from workbench.ir.codec import RecordFormatError
from workbench.ir.kernels import KernelGraph, KernelModule, ScheduledKernel, ScheduledProgram

FORMAT, VERSION = "aten-workbench/journey", 1
_MANIFEST, _LOWERED, _RENDERED, _SCHEDULED, _TRACE = (
    "journey.json",
    "lowered.json",
    "rendered.json",
    "scheduled.json",
    "trace.npz",
)
_ROOM = "room"
"""A part of zeros, which makes a file large enough for `most_bytes` to allow its other parts."""
_TIMES = 48
_ZIP_BEGINS, _ZIP_ENDS, _ZIP_END_BYTES = b"PK\x03\x04", b"PK\x05\x06", 22


class _Part(io.BytesIO):
    """A member that is read as a file; messages call it by its name."""

    def __init__(self, name: str, data: bytes) -> None:
        super().__init__(data)
        self.name = name

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Archive:
    """The contents of a file. The captured graph is part of the lowered one, the machine part of the trace."""

    options: Mapping[str, object]
    """The journey's options that differ from their defaults, as far as they are data: the journey checks them."""
    lowered: KernelGraph
    rendered: tuple[KernelModule, ...]
    scheduled: ScheduledProgram
    trace: Trace
    sources: dict[str, str] = field(default_factory=dict[str, str])
    """The user's line of Python for each `file:line`, as it was when the journey was made."""
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    """Wall seconds of every stage."""

    @property
    def machine(self) -> Machine:
        return self.trace.machine


def save(path: str | os.PathLike[str], archive: Archive, *, made_by: str) -> None:
    """Writes the file, all or nothing: a reader sees the old file or the new one."""
    replace_file(path, pack(archive, made_by=made_by))


def load(path: str | os.PathLike[str]) -> Archive:
    """Returns the archive that `save` wrote, or raises one of the `JourneyFile...` errors."""
    if not os.fspath(path):
        raise NoFile("wb.load opens files that j.save(path) wrote, but the path is empty. Name a file")
    try:
        regular_files.check_readable(path)
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise NoFile(f"wb.load opens files that j.save(path) wrote, but {not_there(Path(path))}") from None
    except IsADirectoryError:
        raise JourneyFileForeign(str(path), "it is a folder") from None
    except OSError as error:
        raise JourneyFileForeign(
            str(path), f"it cannot be read: {error.strerror}" if error.strerror else str(error)
        ) from None
    return unpack(data, str(path))


def pack(archive: Archive, *, made_by: str) -> bytes:
    """Returns the bytes of the file. Equal archives give equal bytes: the zip's dates are fixed."""
    members = {
        _LOWERED: _json(codec.encode(archive.lowered)),
        _RENDERED: _json(codec.encode(archive.rendered)),
        _SCHEDULED: _json(_encode_scheduled(archive.scheduled)),
        _TRACE: archive.trace.to_bytes(),
    }
    for number, kernel in enumerate(archive.scheduled.kernels):
        members[_program_name(number)] = kernel.program.to_bytes()
    _check_opens(members[_LOWERED])
    content = {"options": dict(archive.options), "sources": archive.sources, "seconds": archive.seconds}
    made = _zipped(members, content, made_by)
    lacking = unpacking.unpacked_bytes(made) + _arrays(members) - most_bytes(len(made))
    if lacking > 0:  # thousands of equal tiles pack better than the bound on strangers' files allows
        made = _zipped({**members, _ROOM: bytes(-(-lacking // (_TIMES - 1)))}, content, made_by)
    return made


def _check_opens(lowered: bytes) -> None:
    """Raises for graphs with a user's value that no file may hold: a number that is too large, half a character, or
    containers nested too deeply."""
    try:
        graph_checks.check_lowered(codec.decode(KernelGraph, codec.parsed(lowered), "lowered"))
    except RecordFormatError as error:
        raise JourneyNotSaved(
            f"a file of this journey could not be opened again, and none is written: {error}"
        ) from None


def _zipped(members: Mapping[str, bytes], content: Mapping[str, Any], made_by: str) -> bytes:
    """Returns a zip of these parts and of a manifest, which has the content and names the parts."""
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "schema": _schema(),
        "made_by": made_by,
        **content,
        "members": {name: _digest(data) for name, data in members.items()},
    }
    manifest["checksum"] = _digest(_json(manifest))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, data in {_MANIFEST: _json(manifest), **members}.items():
            file.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_STORED if name == _ROOM else zipfile.ZIP_DEFLATED)
    return out.getvalue()


def unpack(data: bytes, path: str) -> Archive:
    """Returns the archive in these bytes; `path` is for messages."""
    manifest, members = _read(data, path)
    try:
        _check_room(len(data), members)
        programs = {
            name: TileProgram.load(_Part(name, content))
            for name, content in members.items()
            if name.startswith("programs/")
        }
        found = Archive(
            options=codec.json_object(manifest["options"], "options"),
            lowered=codec.decode(KernelGraph, codec.parsed(members[_LOWERED]), "lowered"),
            rendered=codec.decode(tuple[KernelModule, ...], codec.parsed(members[_RENDERED]), "rendered"),
            scheduled=_decode_scheduled(codec.parsed(members[_SCHEDULED]), programs),
            trace=Trace.load(_Part(_TRACE, members[_TRACE])),
            sources=codec.decode(dict[str, str], manifest["sources"], "sources"),
            seconds=codec.decode(dict[str, float], manifest["seconds"], "seconds"),
        )
        graph_checks.check_lowered(found.lowered)
        scheduled_checks.check_together(found.lowered, found.rendered, found.scheduled, found.trace)
    except unpacking.TooLarge as error:
        raise JourneyFileTooLarge(path, str(error)) from None
    except (RecordFormatError, FileFormatError, SimulatorError, ValueError, KeyError) as error:
        raise JourneyFileEdited(path, f"its parts contradict each other: {error}") from None
    return found


def most_bytes(size: int) -> int:
    """The most bytes that the parts of a file may have together. The parts of a journey of a million instructions have
    22 times the bytes of its file. Opening and showing take time in proportion to this limit: seconds for a file of 100
    kB."""
    return (2 << 20) + _TIMES * size


def _arrays(members: Mapping[str, bytes]) -> int:
    """The bytes of the arrays in the parts."""
    return sum(unpacking.unpacked_bytes(data) for name, data in members.items() if name.endswith(".npz"))


def _check_room(size: int, members: Mapping[str, bytes]) -> None:
    """Raises for a file that would take far more memory than journeys of its size do."""
    total = sum(map(len, members.values())) + _arrays(members)
    if total > most_bytes(size):
        raise unpacking.TooLarge(f"it unpacks to {total:,} bytes; at most {most_bytes(size):,} may be read")


def _read(data: bytes, path: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Returns the manifest and the members, with every checksum right. No member is unpacked that the manifest does not
    name."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            held = unpacking.members_of(file, most_bytes(len(data)))
            if _MANIFEST not in held:
                raise JourneyFileForeign(path, f"it is a zip of {', '.join(map(repr, [*held][:3])) or 'nothing'}")
            manifest = _manifest(unpacking.member(file, held.pop(_MANIFEST)), path)
            expected = codec.decode(dict[str, str], manifest["members"], "members")
            _compare_names(expected, held, path)
            content = {name: unpacking.member(file, info) for name, info in held.items()}
            if not data[-_ZIP_END_BYTES:].startswith(_ZIP_ENDS):
                raise JourneyFileEdited(path, "there are bytes after the end of the archive")
    except unpacking.TooLarge as error:
        raise JourneyFileTooLarge(path, str(error)) from None
    except (unpacking.NotOurs, RecordFormatError, KeyError) as error:
        raise JourneyFileEdited(path, str(error)) from None
    except zipfile.BadZipFile as error:
        if "CRC" in str(error):
            raise JourneyFileEdited(path, str(error)) from None
        if not data or (data.startswith(_ZIP_BEGINS) and _MANIFEST.encode() in data[:64]):
            raise JourneyFileTruncated(path, len(data)) from None
        raise JourneyFileForeign(path, "it is no zip file") from None
    except (zlib.error, NotImplementedError, EOFError, RuntimeError, OSError, ValueError) as error:
        raise JourneyFileEdited(path, str(error)) from None
    for name in sorted(content):
        if _digest(content[name]) != expected[name]:
            raise JourneyFileEdited(path, f"its part {name} no longer has its checksum")
    return manifest, content


def _manifest(data: bytes, path: str) -> dict[str, Any]:
    try:
        found = codec.parsed(data)
    except RecordFormatError as error:
        raise JourneyFileEdited(path, f"{_MANIFEST} is {error}") from None
    manifest = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    if manifest.get("format") != FORMAT:
        raise JourneyFileForeign(path, f"its {_MANIFEST} is of format {manifest.get('format')!r}")
    if (manifest.get("version"), manifest.get("schema")) != (VERSION, _schema()):
        told = f"version {manifest.get('version')!r} with records {manifest.get('schema')!r}"
        raise JourneyFileVersion(path, told, f"version {VERSION} with records {_schema()!r}", manifest.get("made_by"))
    checksum = manifest.pop("checksum", None)
    if checksum != _digest(_json(manifest)):
        raise JourneyFileEdited(path, f"{_MANIFEST} no longer has its checksum")
    return manifest


def _compare_names(expected: Collection[str], found: Collection[str], path: str) -> None:
    for name in sorted({*expected, *found}):
        if name not in found:
            raise JourneyFileEdited(path, f"its part {name} is missing")
        if name not in expected:
            raise JourneyFileEdited(path, f"its part {name} was added later")


def _encode_scheduled(scheduled: ScheduledProgram) -> dict[str, Any]:
    """Encodes all but the tile programs, which are members of their own. The kernels come last in the data."""
    out = codec.encode(scheduled)
    out["kernels"] = out.pop("kernels")
    return out


def _decode_scheduled(data: object, programs: Mapping[str, TileProgram]) -> ScheduledProgram:
    """Decodes a scheduled program, with the tile programs in their places."""
    record = codec.object_of(data, "an", "scheduled")
    rows = cast("list[object]", record["kernels"])
    if not isinstance(record["kernels"], list) or len(rows) != len(programs):
        raise RecordFormatError(f"there are {len(programs)} programs, and not as many kernels")
    for number, row in enumerate(rows):
        codec.object_of(row, "an", f"kernels[{number}]")["program"] = programs[_program_name(number)]
    return codec.decode(ScheduledProgram, record, "scheduled")


def _program_name(number: int) -> str:
    return f"programs/{number}.npz"


def _schema() -> str:
    return codec.schema(KernelGraph, KernelModule, ScheduledKernel, ScheduledProgram)


def _json(data: object) -> bytes:
    return json.dumps(data, allow_nan=False, separators=(",", ":")).encode()  # not sorted: a dict's order is kept


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
