"""Memory files: organisation, timing and controller of one DRAM channel, each figure with its source.

The shipped memories are TOML files in `shipped_memories/`; `assumed` lists unpublished figures, as in machine files.
Timing is in cycles of the memory's own clock. At another clock, times of the cells and amplifiers stay the same in
nanoseconds, and times of the buses (`BUS_FIGURES`) stay the same in cycles.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, cast

from simulator.did_you_mean import did_you_mean
from simulator.errors import MachineError
from simulator.machine.file_figures import origins_in
from simulator.machine.parts import HASHES, REFRESHES
from simulator.machine.toml_text import parse_toml, read_text

_FOLDER = Path(__file__).parent / "shipped_memories"

BUS_FIGURES = ("burst", "column_to_column", "column_to_column_same_group", "read_to_write_gap", "activate_cycles")
"""The figures of buses: the same number of cycles at every clock."""

FIELDS = {"Ch": "channel", "Ra": "pseudo-channel", "Bg": "group", "Ba": "bank", "Ro": "row", "Co": "column"}
"""The names of an address's fields in a mapping. Without `Bg`, a bank's group is the low part of `Ba`."""

_LEAST = {"bank_refresh": 0}
"""The least value of each figure whose least value is not 1."""

_POWERS_OF_TWO = ("request_bytes", "pseudo_channels", "bank_groups", "banks", "rows", "row_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """One channel of DRAM. Figures from `burst` on are cycles from command to command, unless they say otherwise."""

    name: str
    standard: str
    clock_ps: int

    request_bytes: int
    """Bytes of one burst, the least that is read or written."""
    pseudo_channels: int
    bank_groups: int
    banks: int
    """Banks in each group."""
    rows: int
    row_bytes: int
    command_buses: int
    """1: one command per cycle. 2: one command for rows and one for columns."""
    activate_cycles: int
    """Cycles that an ACT takes on its command bus."""

    burst: int
    """Cycles that the data of one request takes on the data bus."""
    read_latency: int
    """From RD to the first data."""
    activate_to_read: int
    activate_to_write: int
    precharge: int
    """From PRE to ACT."""
    row_active: int
    """From ACT to PRE."""
    row_cycle: int
    """From ACT to ACT in one bank."""
    write_recovery: int
    """From the last data written to PRE."""
    read_to_precharge: int
    write_latency: int
    """From WR to the first data."""
    column_to_column: int
    column_to_column_same_group: int
    activate_to_activate: int
    activate_to_activate_same_group: int
    four_activates: int
    """Cycles in which a pseudo-channel may activate at most four rows."""
    write_to_read: int
    """From the last data written to RD."""
    write_to_read_same_group: int
    refresh: int
    """Cycles of a refresh of all banks of a pseudo-channel."""
    bank_refresh: int
    """Cycles of a refresh of one bank; 0 if the memory cannot refresh banks one by one."""
    refresh_interval: int
    read_to_write_gap: int
    """Cycles without data when the data bus turns from reading to writing."""

    address: str
    """Fields of an address from the highest on: `FIELDS`. Below the lowest lie the bytes of a request."""
    channel_hash: str
    """`none`; `xor`: the channel is the exclusive or of its field with all bits above the field, in pieces as wide as
    the field; `all`: pseudo-channel, bank group and bank are hashed likewise."""
    refreshes: str
    """`all`: all banks of a pseudo-channel are refreshed at once, which stops it; `each`: one bank at a time, in an
    interval divided by the number of banks."""
    queue_entries: int
    """Entries of the read queue, and of the write queue."""
    drain_from: float
    """Filled part of the write queue above which writes go first although there are reads."""
    drain_to: float
    """Filled part of the write queue below which reads go first again."""

    assumed: tuple[str, ...] = ()
    sources: tuple[tuple[str, str], ...] = ()

    @property
    def columns(self) -> int:
        """Requests in a row."""
        return self.row_bytes // self.request_bytes

    @property
    def bytes_per_cycle(self) -> Fraction:
        """The peak bandwidth of one channel."""
        return min(Fraction(self.request_bytes * self.pseudo_channels, self.burst), Fraction(self.request_bytes))

    @property
    def between_refreshes(self) -> tuple[int, int]:
        """Cycles between two refreshes, and the least that are needed there: with fewer no request is served.

        All banks at once: a command for each pseudo-channel, and the time of the last refresh. One bank at a time: a
        PRE and a refresh for each pseudo-channel, and as many commands of requests; or, if that leaves less to spare, a
        whole round of banks, in which a bank itself is refreshed once.
        """
        if self.refreshes == "all":
            return self.refresh_interval, self.refresh + self.pseudo_channels
        next_bank = self.refresh_interval // (self.bank_groups * self.banks), 4 * self.pseudo_channels
        same_bank = self.refresh_interval, self.bank_refresh + self.pseudo_channels
        return min(next_bank, same_bank, key=lambda times: times[0] - times[1])

    def at_clock(self, clock_ps: Fraction) -> Memory:
        """The same memory with an interface of another clock."""
        ratio = self.clock_ps / clock_ps
        scaled: dict[str, int] = {}
        for name in timing_names():
            cycles = cast(int, getattr(self, name))
            if name in BUS_FIGURES:
                continue
            scaled[name] = int(cycles * ratio) if name == "refresh_interval" else -int(-cycles * ratio // 1)
        return dataclasses.replace(self, clock_ps=round(clock_ps), **scaled)


def timing_names() -> tuple[str, ...]:
    """Names of all figures that are cycles."""
    names = figure_names()
    return names[names.index("burst") : names.index("address")]


def figure_names() -> tuple[str, ...]:
    """Names of all figures of a memory, which are also the keys of its file."""
    fields = (field.name for field in dataclasses.fields(Memory))
    return tuple(name for name in fields if name not in ("name", "assumed", "sources"))


def memory_names() -> tuple[str, ...]:
    """The names of the shipped memories."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


def is_file(name: str) -> bool:
    """True if `name` is the path of a memory file, not the name of a shipped memory."""
    return name.endswith(".toml")


def load_memory(name: str) -> Memory:
    """Loads a shipped memory by its name, or a memory file by its path, which ends in `.toml`."""
    if is_file(name):
        return _from_file(Path(name))
    if name not in memory_names():
        raise MachineError(
            f"there is no memory {name!r}{did_you_mean(name, memory_names())}; shipped: {', '.join(memory_names())}; "
            f"a memory of your own is a file: 'mine.toml'"
        )
    return _shipped(name)


@cache
def _shipped(name: str) -> Memory:
    return _from_file(_FOLDER / f"{name}.toml")


def _from_file(path: Path) -> Memory:
    return parse_memory(path.stem, read_text("memory file", path))


def parse_memory(name: str, text: str) -> Memory:
    """The memory that a TOML text describes; `MachineError` for figures that are missing, unknown or impossible."""
    table = parse_toml(f"memory {name!r}", text)
    origins = origins_in(f"memory {name!r}", table.pop("assumed", []), {}, table.pop("sources", {}))
    known = figure_names()
    for key in table:
        if key not in known:
            raise MachineError(f"memory {name!r}: unknown figure {key!r}{did_you_mean(key, known)}")
    missing = [key for key in known if key not in table]
    if missing:
        raise MachineError(f"memory {name!r} lacks {', '.join(missing)}")
    for key in known:
        if len(origins.kinds(key)) != 1:
            raise MachineError(f"memory {name!r}: {key} needs a source, or a place in `assumed`, and not both")
    sources = tuple(sorted(origins.sources.items()))
    memory = Memory(name=name, assumed=origins.assumed, sources=sources, **table)  # pyright: ignore[reportArgumentType]
    check_memory(memory)
    return memory


def check_memory(memory: Memory) -> None:
    """Raises for a memory that no memory file could have described."""
    figures = {key: getattr(memory, key) for key in figure_names()}
    for mistake in chain(_mistakes(figures), _too_few_cycles(memory)):
        raise MachineError(f"memory {memory.name!r}: {mistake}")


def _too_few_cycles(memory: Memory) -> Iterator[str]:
    between, needed = memory.between_refreshes
    if between < needed:
        yield f"{between} cycles between two refreshes, of which {needed} are gone"


def is_mapping(address: str) -> bool:
    """True if a text names each field of an address once; `Bg` may be missing."""
    parts = {address[at : at + 2] for at in range(0, len(address), 2)}
    return parts | {"Bg"} == set(FIELDS) and len(address) == 2 * len(parts)


def wrong_controls(given: Mapping[str, str], bank_refresh: int) -> Iterator[str]:
    """Yields the impossible settings of a controller; `given` maps their names to address, hash and refreshes."""
    (address_name, address), (hash_name, hashed), (refresh_name, refreshes) = given.items()
    if not is_mapping(address):
        yield f"{address_name} = {address!r}: expected each of {', '.join(FIELDS)} once"
    for name, value, allowed in ((hash_name, hashed, HASHES), (refresh_name, refreshes, REFRESHES)):
        if value not in allowed:
            yield f"{name} = {value!r}: expected one of {', '.join(allowed)}"
    if refreshes == "each" and not bank_refresh:
        yield f"{refresh_name} = 'each': with bank_refresh = 0 the memory refreshes all banks at once only"


def _mistakes(table: Mapping[str, Any]) -> Iterator[str]:
    """Yields a message for each impossible figure of a memory."""
    for field in dataclasses.fields(Memory):
        if field.name not in table:
            continue
        value, written = table[field.name], f"{field.name} = {table[field.name]!r}"
        least = _LEAST.get(field.name, 1)
        if str(field.type) == "str":
            if not isinstance(value, str):
                yield f"{written}: expected a text"
        elif str(field.type) == "float":
            if not isinstance(value, float) or not 0 < value <= 1:
                yield f"{written}: expected a part, more than 0 and at most 1"
        elif not isinstance(value, int) or isinstance(value, bool) or value < least:
            yield f"{written}: expected a whole number, at least {least}"
        elif field.name in _POWERS_OF_TWO and value & (value - 1):
            yield f"{written}: expected a power of two"
    if table["row_bytes"] < table["request_bytes"]:
        yield f"a row of {table['row_bytes']} bytes holds no request"
    if table["command_buses"] not in (1, 2):
        yield f"command_buses = {table['command_buses']!r}: expected 1 or 2"
    yield from wrong_controls({key: table[key] for key in _CONTROLS}, table["bank_refresh"])
    if table["drain_to"] >= table["drain_from"]:
        yield "drain_to is not less than drain_from"


_CONTROLS = ("address", "channel_hash", "refreshes")
