"""A memory controller written for reading: it looks at every cycle, and at every rule by itself.

What `simulator.memory.banked.banks` does event by event must come out the same here, cycle by cycle.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from simulator.machine.dram_file import Memory

BANK, GROUP, PSEUDO = 3, 2, 1
"""Number of parts of (pseudo-channel, group, bank) that two commands share if a rule holds between them."""


def rules(m: Memory) -> dict[tuple[str, str, int], int]:
    """(earlier command, later command, what they share) -> cycles between them at least."""
    written = m.write_latency + m.burst
    column = max(m.burst, m.column_to_column)
    return {
        ("ACT", "ACT", BANK): m.row_cycle,
        ("ACT", "ACT", GROUP): m.activate_to_activate_same_group,
        ("ACT", "ACT", PSEUDO): m.activate_to_activate,
        ("ACT", "PRE", BANK): m.row_active,
        ("ACT", "RD", BANK): m.activate_to_read,
        ("ACT", "WR", BANK): m.activate_to_write,
        ("PRE", "ACT", BANK): m.precharge,
        ("RD", "PRE", BANK): m.read_to_precharge,
        ("WR", "PRE", BANK): written + m.write_recovery,
        ("RD", "RD", GROUP): m.column_to_column_same_group,
        ("RD", "RD", PSEUDO): column,
        ("WR", "WR", GROUP): m.column_to_column_same_group,
        ("WR", "WR", PSEUDO): column,
        ("RD", "WR", PSEUDO): m.read_latency + m.burst + m.read_to_write_gap - m.write_latency,
        ("WR", "RD", GROUP): written + m.write_to_read_same_group,
        ("WR", "RD", PSEUDO): written + m.write_to_read,
        **({("REF", "ACT", PSEUDO): m.refresh} if m.refreshes == "all" else {("REF", "ACT", BANK): m.bank_refresh}),
    }


@dataclass
class Request:
    place: tuple[int, int, int]
    row: int
    column: int
    write: bool
    arrival: int = 0
    counted: bool = False


@dataclass
class Ticking:
    memory: Memory
    counters: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("hits", "misses", "conflicts"), 0))
    latency: int = 0
    moving: int = 0
    """Cycles in which data moves."""
    idle: int = 0
    """Cycles in which nothing is queued and no data moves."""
    forwarded: int = 0

    def __post_init__(self) -> None:
        self.rules = rules(self.memory)
        self.log: list[tuple[int, str, tuple[int, int, int]]] = []
        self.open: dict[tuple[int, int, int], int] = {}
        self.lists: dict[str, list[Request]] = {"reads": [], "writes": [], "opening": []}
        self.drains, self.row_bus, self.column_bus = False, 0, 0
        self.due: list[int] = []
        self.round: dict[int, list[tuple[int, int, int]]] = {}

    @property
    def each(self) -> bool:
        return self.memory.refreshes == "each"

    def run(self, requests: list[Request]) -> int:
        """The cycle after the one in which the last request was taken; goes on until all are done."""
        waiting, now, last = list(requests), 0, 0
        while waiting or any(self.lists.values()):
            every = self.memory.bank_groups * self.memory.banks if self.each else 1
            if now and now % (self.memory.refresh_interval // every) == 0:
                self.due += range(self.memory.pseudo_channels)
            self.tick(now)
            if waiting and self.take(waiting[0], now):
                waiting.pop(0)
                last = now
            self.look(now)
            now += 1
        return last + 1

    def take(self, request: Request, now: int) -> bool:
        same = [(w.place, w.row, w.column) for w in self.lists["writes"]]
        queue = self.lists["writes" if request.write else "reads"]
        if not request.write and (request.place, request.row, request.column) in same:
            self.forwarded += 1
            return True
        if len(queue) == self.memory.queue_entries:
            return False
        request.arrival = now
        queue.append(request)
        self.turn()
        return True

    def look(self, now: int) -> None:
        length = max(self.memory.burst, self.memory.column_to_column)
        moves = any(command in ("RD", "WR") and now < at + length for at, command, _ in self.log)
        self.moving += moves
        self.idle += not moves and not any(self.lists.values())

    def turn(self) -> None:
        reads, filled = len(self.lists["reads"]), len(self.lists["writes"]) / self.memory.queue_entries
        if self.drains:
            self.drains = not (filled < self.memory.drain_to and reads)
        else:
            self.drains = filled > self.memory.drain_from or not reads

    def tick(self, now: int) -> None:
        self.turn()
        if self.memory.command_buses == 2:
            self.give(now, ("RD", "WR"))
            self.give(now, ("ACT", "PRE"))
        else:
            self.give(now, ("RD", "WR", "ACT", "PRE"))

    def give(self, now: int, commands: tuple[str, ...]) -> None:
        """The first request whose next command is one of these and may be given gets it."""
        stopped = self.due and not self.each
        held = self.refreshed_next() if self.due and self.each else []
        for name in ("opening",) if stopped else ("opening", "writes" if self.drains else "reads"):
            for request in self.lists[name]:
                if name != "opening" and request.place in held:
                    continue
                command = self.next_command(request)
                if command in commands and self.allowed(command, request.place, now):
                    self.serve(now, command, request, name)
                    return
        if self.due and "ACT" in commands:
            self.refresh(now)

    def next_command(self, request: Request) -> str:
        if request.place not in self.open:
            return "ACT"
        if self.open[request.place] != request.row:
            return "PRE"
        return "WR" if request.write else "RD"

    def allowed(self, command: str, place: tuple[int, int, int], now: int, scope: int = BANK) -> bool:
        if now < (self.row_bus if command in ("ACT", "PRE", "REF") else self.column_bus):
            return False
        acts = [at for at, earlier, other in self.log if earlier == "ACT" and other[:1] == place[:1]]
        if command == "ACT" and len(acts) >= 4 and now < acts[-4] + self.memory.four_activates:
            return False
        for at, earlier, other in self.log:
            for level in (BANK, GROUP, PSEUDO):
                shared = min(level, scope)
                if other[:shared] == place[:shared] and now < at + self.rules.get((earlier, command, level), 0):
                    return False
        return True

    def serve(self, now: int, command: str, request: Request, name: str) -> None:
        if command == "PRE" and any(other.place == request.place for other in self.lists["opening"]):
            return
        if not request.counted:
            request.counted = True
            self.counters[{"PRE": "conflicts", "ACT": "misses"}.get(command, "hits")] += 1
        self.note(now, command, request.place)
        if command == "PRE":
            del self.open[request.place]
        elif command == "ACT":
            self.open[request.place] = request.row
            if name != "opening":
                self.lists[name].remove(request)
                self.lists["opening"].append(request)
        else:
            self.lists[name].remove(request)
            if command == "RD":
                self.latency += now + self.memory.read_latency + self.memory.burst - request.arrival

    def note(self, now: int, command: str, place: tuple[int, int, int]) -> None:
        reach = max(self.rules.values())
        self.log = [entry for entry in self.log if entry[0] + reach > now]
        self.log.append((now, command, place))
        taken = now + (self.memory.activate_cycles if command == "ACT" else 1)
        if command in ("RD", "WR"):
            self.column_bus = taken
        else:
            self.row_bus = taken
        if self.memory.command_buses == 1:
            self.row_bus = self.column_bus = taken

    def refresh(self, now: int) -> None:
        banks = self.refreshed_next()
        if any(request.place in banks for request in self.lists["opening"]):
            return
        if any(place in self.open for place in banks):
            if all(self.allowed("PRE", place, now) for place in banks):
                for place in banks:
                    self.note(now, "PRE", place)
                    self.open.pop(place, None)
        elif self.quiet(now, banks):
            self.note(now, "REF", banks[0])
            self.due.pop(0)
            if self.each:
                self.round[banks[0][0]].remove(banks[0])

    def refreshed_next(self) -> list[tuple[int, int, int]]:
        """The banks that the next refresh is for: all, or the first of a round that no request wants, or the first."""
        pseudo = self.due[0]
        banks = [(pseudo, group, bank) for group in range(self.memory.bank_groups) for bank in range(self.memory.banks)]
        if not self.each:
            return banks
        left = self.round[pseudo] = self.round.get(pseudo) or banks
        wanted = {request.place for requests in self.lists.values() for request in requests}
        return [next((place for place in left if place not in wanted), left[0])]

    def quiet(self, now: int, banks: list[tuple[int, int, int]]) -> bool:
        """True if every bank could be activated; of all banks at once, the limits on several ACTs aside."""
        if now < self.row_bus:
            return False
        if self.each:
            acts = [at for at, earlier, other in self.log if earlier == "ACT" and other[0] == banks[0][0]]
            if acts and now < acts[-1] + self.memory.activate_to_activate:
                return False
            if len(acts) >= 4 and now < acts[-4] + self.memory.four_activates:
                return False
        for at, earlier, other in self.log:
            if earlier == "REF" and not self.each and other[0] == banks[0][0] and now < at + self.memory.refresh:
                return False
            if other in banks and now < at + self.rules.get((earlier, "ACT", BANK), 0):
                return False
        return True
