"""Journeys in files, and what is looked for in one."""

from __future__ import annotations

from simulator.errors import WorkbenchError


class JourneyFileError(WorkbenchError):
    """A file cannot be opened as a journey. Its subclasses say why."""


class JourneyFileForeign(JourneyFileError):
    """The file is something else."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(f"{path} is not a journey: {what}. wb.load opens what j.save(path) wrote")
        self.path = path


class JourneyFileTruncated(JourneyFileError):
    """The file ends too early, as after a broken copy or download."""

    def __init__(self, path: str, size: int) -> None:
        super().__init__(
            f"{path} is a journey that is cut off after {size:,} bytes: its end is missing. Copy it again, or save the "
            "journey again"
        )
        self.path = path


class JourneyFileVersion(JourneyFileError):
    """The file was written by a version of the workbench with other records."""

    def __init__(self, path: str, found: str, expected: str, made_by: object) -> None:
        super().__init__(
            f"{path} is a journey of {found}, written by {made_by}; this version reads {expected}. Trace and save it "
            "again with this version, or open it with the one that wrote it"
        )
        self.path = path


class JourneyFileEdited(JourneyFileError):
    """The file was changed after it was saved, or damaged."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(
            f"{path} is a journey, but was changed or damaged after it was saved: {what}. Journeys are read whole or "
            "not at all; save it again"
        )
        self.path = path


class JourneyFileTooLarge(JourneyFileError):
    """The file would take far more memory than a journey of its size does."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(
            f"{path} is not opened: {what}, as many as any journey in a file of this size takes. It was made to take "
            "all memory, or is damaged"
        )
        self.path = path


class NoFunction(WorkbenchError):
    """A journey that was loaded from a file is asked to compute, which takes the function and its weights."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(
            f"{what} computes with the function that was traced and with its weights, and {path} holds neither. Trace "
            "the function again; looking, selecting, simulating and rescheduling work on a loaded journey"
        )
        self.path = path


class UnknownSelection(WorkbenchError, LookupError):
    """`j.select` was given something that is not in the journey."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"nothing in this journey is {what}: {hint}")


class AmbiguousSelection(WorkbenchError, LookupError):
    """`j.select` was given a text that names several things."""

    def __init__(self, what: str, meanings: list[str]) -> None:
        super().__init__(f"{what!r} can mean {len(meanings)} things: {', '.join(meanings)}. Say which")
        self.meanings = tuple(meanings)
