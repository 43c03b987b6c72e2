"""The simulator's errors, one class per mistake; a message says what is wrong, where, what was expected, what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self


class Mistake(Exception):
    """Base of every error that the simulator, or a package that builds on it, raises on purpose."""

    original: BaseException | None = None
    """The error of another library, with its traceback, if this one stands for it."""

    def instead_of(self, original: BaseException) -> Self:
        """Stores another library's error in `original`, so that its long traceback is not shown; returns this error."""
        self.original = original
        return self


class BadArgument(Mistake, ValueError, TypeError):
    """A function was called with an argument of the wrong kind."""


class SimulatorError(Mistake):
    """Base of every error the simulator raises on purpose."""


class CacheWarning(UserWarning):
    """The cache on disk cannot be written; everything works, but each process compiles again."""


class BadSetting(SimulatorError, ValueError):
    """An environment variable has an invalid value."""


class MachineError(SimulatorError):
    """A machine is unknown, or one of its figures is missing, unknown or impossible."""


class ProgramError(SimulatorError):
    """A tile program is not well formed, or does not order two accesses to the same memory."""

    def __init__(self, kernel: str, violations: Sequence[str]) -> None:
        self.kernel = kernel
        self.violations = tuple(violations)
        super().__init__(f"the program of {kernel!r} is not valid:\n" + listed(self.violations))


class LaunchError(SimulatorError):
    """A launch does not fit its program: wrong number of addresses, or it waits for a launch that comes later."""


class NoFolder(SimulatorError):
    """A file cannot be written: the folder is missing, something that is no file has the name, or the disk is full."""


class NoFile(SimulatorError, FileNotFoundError):
    """A file that is to be read is not there."""


class FileFormatError(SimulatorError):
    """This version did not write the file: it has another format or version, or is truncated or changed."""


class NotYetSupported(SimulatorError):
    """The program or machine asks for a feature that this version does not simulate."""

    def __init__(self, feature: str, where: str) -> None:
        self.feature = feature
        super().__init__(f"{where}: {feature} cannot be simulated by this version")


SMALLER = "A smaller tile or fewer buffers in the mapping makes it fit."


class DoesNotFit(SimulatorError):
    """The buffers of a program need more scratchpad than the machine has: a result, carried by an exception."""

    def __init__(
        self,
        kernel: str,
        demand: int,
        capacity: int,
        buffers: Sequence[tuple[str, int]],
        advice: str = SMALLER,
        program: object = None,
    ) -> None:
        self.kernel = kernel
        self.demand = demand
        """Scratchpad bytes that the program needs."""
        self.capacity = capacity
        """Scratchpad bytes that the machine has."""
        self.buffers = tuple(buffers)
        """(name, bytes) of the buffers that are in use at once, largest first."""
        self.advice = advice
        self.program = program
        """The tile program that does not fit; None if the error was raised before there was a program."""
        self.scratchpad: object = None
        """The buffers as a table and a picture, from `j.scheduled` and `j.simulated`; None until `show`."""
        super().__init__(self._told({}))

    def show(self, tensors: Mapping[str, str], scratchpad: object) -> None:
        """Adds the tensors of each buffer to the message, and keeps `scratchpad`, which shows the buffers."""
        self.scratchpad = scratchpad
        shown = "As a table and a picture: error.scratchpad; in a notebook after this, sys.last_value.scratchpad."
        self.args = (f"{self._told(tensors)}\n{shown}",)

    def _told(self, tensors: Mapping[str, str]) -> str:
        named = ((name, f" ({tensors[name]})" if tensors.get(name) else "", size) for name, size in self.buffers)
        sizes = "\n".join(f"  {name}{held}: {size:,} bytes" for name, held, size in named)
        return (
            f"{self.kernel!r} needs {self.demand:,} bytes of scratchpad, the machine has {self.capacity:,}: "
            f"{self.gap:,} too many.\nIts buffers in use at once:\n{sizes}\n{self.advice}"
        )

    @property
    def gap(self) -> int:
        """Bytes that the program needs beyond the capacity."""
        return self.demand - self.capacity


class CommonMemoryFull(SimulatorError):
    """The tensors that are to stay in the common memory together need more than the machine has."""

    def __init__(self, launch: int, demand: int, capacity: int, tensors: Sequence[tuple[str, int]]) -> None:
        self.launch = launch
        """The launch in which most bytes are resident."""
        self.demand = demand
        self.capacity = capacity
        self.tensors = tuple(sorted(tensors, key=lambda pair: -pair[1]))
        """(name, bytes) of each tensor that is resident in that launch, largest first."""
        has = f"the machine has {capacity:,}" if capacity else "the machine has none: common_memory_bytes = 0"
        sizes = listed([f"{name}: {size:,} bytes" for name, size in self.tensors])
        super().__init__(
            f"launch {launch} (counted from 0) needs {demand:,} bytes resident in the common memory, but {has}.\n"
            f"{sizes}\nKeep fewer tensors resident, or use a machine with a larger common memory."
        )


class NoSuchPlace(SimulatorError):
    """A plan places a tensor on a chiplet that the machine does not have, or by an unknown policy."""


class InvariantViolation(SimulatorError):
    """A trace contradicts its program or its machine: a fault of the simulator or of the program's dependences."""

    def __init__(self, violations: Sequence[str]) -> None:
        self.violations = tuple(violations)
        super().__init__(
            f"the trace breaks its invariants:\n{listed(self.violations)}\nPlease report it: the fault is "
            "the simulator's, or lies in the program's dependences"
        )


class Deadlock(SimulatorError):
    """No instruction can start or be issued although the program has not ended."""

    def __init__(self, kernel: str, cycle: int, waiting: int, instructions: int, circle: str, absent: str = "") -> None:
        self.kernel = kernel
        self.cycle = cycle
        self.waiting = waiting
        self.circle = circle
        """The instructions that wait for one another, from one back to itself; empty if no circle was found."""
        super().__init__(
            f"{kernel!r} is stuck at cycle {cycle:,} with {waiting:,} of {instructions:,} instructions to go: "
            + (
                f"instructions that wait for each other in a circle: {circle}"
                if circle
                else absent or "the instructions that they wait for never complete"
            )
            + ". The fault is in the code that makes the program: simulator.verify finds it."
        )


class SimulationStopped(SimulatorError):
    """The simulation reached its time limit before its end. No part of the trace is kept."""

    def __init__(self, seconds: float, kernel: str, launch: tuple[int, int], done: tuple[int, int], cycle: int) -> None:
        self.seconds = seconds
        self.cycle = cycle
        self.instructions, self.of = done
        super().__init__(
            f"the simulation was stopped after its limit of {seconds:g} seconds: {done[0]:,} of {done[1]:,} "
            f"instructions had started, in launch {launch[0] + 1:,} of {launch[1]:,} ({kernel!r}) at cycle "
            f"{cycle:,}. Give it more seconds, or fewer instructions: larger tiles in the mapping, or smaller "
            "inputs."
        )


def listed(violations: Sequence[str], most: int = 10) -> str:
    """The first `most` violations, one per line, and a last line with the number of the others."""
    lines = [f"- {violation}" for violation in violations[:most]]
    if len(violations) > most:
        lines.append(f"- and {len(violations) - most} more")
    return "\n".join(lines)
