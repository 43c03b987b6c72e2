"""The simulator's errors: one class per mistake, each saying what, where, what was expected, what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self


class Mistake(Exception):
    """Base of every error that is raised on purpose: here, and by those who build on the simulator."""

    original: BaseException | None = None
    """The error of another library, with its traceback, if this one stands for it."""

    def instead_of(self, original: BaseException) -> Self:
        """The same, standing for what another library raised: that is kept, and its pages of traceback not shown."""
        self.original = original
        return self


class BadArgument(Mistake, ValueError, TypeError):
    """Something was called with an argument of another kind than it takes."""


class SimulatorError(Mistake):
    """Base of every error the simulator raises on purpose."""


class CacheWarning(UserWarning):
    """The cache on disk cannot be written; everything works, but is made anew each time."""


class BadSetting(SimulatorError, ValueError):
    """An environment variable holds what it cannot mean."""


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
    """A file is to be written into a folder that is not there, in the place of what is no file, or where no room is."""


class NoFile(SimulatorError, FileNotFoundError):
    """A file that is to be read is not there."""


class FileFormatError(SimulatorError):
    """A file is not one that this version wrote: other format, other version, truncated or changed."""


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
        """The tile program that does not fit, where it was made before that was known."""
        self.scratchpad: object = None
        """The same as a table and a picture, from `j.scheduled` and `j.simulated`."""
        super().__init__(self._told({}))

    def show(self, tensors: Mapping[str, str], scratchpad: object) -> None:
        """Names the tensors that each buffer holds, and keeps what shows them."""
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
        """Bytes that are missing."""
        return self.demand - self.capacity


class CommonMemoryFull(SimulatorError):
    """The tensors that are to stay in the common memory together need more than the machine has."""

    def __init__(self, launch: int, demand: int, capacity: int, tensors: Sequence[tuple[str, int]]) -> None:
        self.launch = launch
        """The launch in which most is resident."""
        self.demand = demand
        self.capacity = capacity
        self.tensors = tuple(sorted(tensors, key=lambda pair: -pair[1]))
        """(name, bytes) of what is resident then, largest first."""
        has = f"the machine has {capacity:,}" if capacity else "the machine has none: common_memory_bytes = 0"
        sizes = listed([f"{name}: {size:,} bytes" for name, size in self.tensors])
        super().__init__(
            f"launch {launch} (counted from 0) needs {demand:,} bytes resident in the common memory, but {has}.\n"
            f"{sizes}\nKeep fewer tensors resident, or use a machine with a larger common memory."
        )


class NoSuchPlace(SimulatorError):
    """A tensor is to be placed on a chiplet that the machine does not have, or by a policy that is none."""


class InvariantViolation(SimulatorError):
    """A trace contradicts its program or its machine: a fault of the simulator or of the program's dependences."""

    def __init__(self, violations: Sequence[str]) -> None:
        self.violations = tuple(violations)
        super().__init__(
            f"the trace breaks its invariants:\n{listed(self.violations)}\nPlease report it: the fault is "
            "the simulator's, or lies in the program's dependences"
        )


class Deadlock(SimulatorError):
    """Nothing can start and nothing can be issued, and the program is not over."""

    def __init__(self, kernel: str, cycle: int, waiting: int, instructions: int, circle: str, absent: str = "") -> None:
        self.kernel = kernel
        self.cycle = cycle
        self.waiting = waiting
        self.circle = circle
        """Who waits for whom, from an instruction back to itself; empty if no circle was found."""
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
    """The time that was given was over before the simulation was. Nothing of it is kept."""

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
    """The first violations, a line each, and how many more there are."""
    lines = [f"- {violation}" for violation in violations[:most]]
    if len(violations) > most:
        lines.append(f"- and {len(violations) - most} more")
    return "\n".join(lines)
