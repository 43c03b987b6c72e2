"""Errors of journeys in files, and of selections in a journey."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from workbench.ground.errors.workbench_error import WorkbenchError

_NAMED: Final = 6
"""The most refused passes and ops of a file that an error names."""


class JourneyFileError(WorkbenchError):
    """A file cannot be opened as a journey. The subclasses are the reasons."""


class JourneyNotSaved(WorkbenchError):
    """A journey holds something that a file of it could not keep."""


class JourneyFileForeign(JourneyFileError):
    """The file is not a journey."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(f"{path} is not a journey: {what}. wb.load opens files that j.save(path) wrote")
        self.path = path


class JourneyFileTruncated(JourneyFileError):
    """The file ends too early, as after a broken copy or download."""

    def __init__(self, path: str, size: int) -> None:
        super().__init__(
            f"{path} is a journey that ends after {size:,} bytes: the rest is missing. Copy it again, or save "
            "the journey again"
        )
        self.path = path


class JourneyFileVersion(JourneyFileError):
    """The file was written by a version of the workbench with other records."""

    def __init__(self, path: str, found: str, expected: str, made_by: object) -> None:
        super().__init__(
            f"{path} is a journey of {found}, written by {made_by}; this version reads {expected}. Trace and "
            "save it again with this version, or open it with the version that wrote it"
        )
        self.path = path


class JourneyFileEdited(JourneyFileError):
    """The file was changed after it was saved, or damaged."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(
            f"{path} is a journey, but was changed or damaged after it was saved: {what}. Such a file is not "
            "opened, not even in part; save the journey again"
        )
        self.path = path


class JourneyFileTooLarge(JourneyFileError):
    """The file would take far more memory than a journey of its size does."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(
            f"{path} is not opened: {what}, the most for a journey file of this size. The file is damaged, or was made "
            "to fill the memory"
        )
        self.path = path


class JourneyFileUnfit(JourneyFileError):
    """A record in the file has the right form, but the next stage cannot be computed from it."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(
            f"{path} can be opened and viewed, but a stage cannot be repeated from its records: {what}. The file was "
            "edited, or saved in a session with other operators registered; trace the function again"
        )
        self.path = path


class NotTrusted(WorkbenchError):
    """Repeating a stage of a journey from a file would run passes or ops of MLIR that can do more than change a
    kernel."""

    def __init__(self, path: str, refused: Sequence[str]) -> None:
        more = [f"and {len(refused) - _NAMED:,} more"] if len(refused) > _NAMED else []
        super().__init__(
            f"{path} asks MLIR for more than changing kernels, which an untrusted file is not allowed to do: "
            f"{'; '.join([*refused[:_NAMED], *more])}. Such a pass or op can write files and run code. Drop the "
            "file's passes and scripts with j.with_(passes=None, schedule=None), or, if you know who made the file and "
            f"why, open it with wb.load({path!r}, trust=True). What a file may ask for is in docs/sharing.md"
        )
        self.path, self.refused = path, tuple(refused)


class OtherResults(WorkbenchError):
    """A function that gives more or fewer results in another call cannot be compared with itself."""

    def __init__(self, ours: int, pytorchs: int) -> None:
        super().__init__(
            f"check() got {ours} results from one call and {pytorchs} from a call in PyTorch: their number must not "
            "change from call to call, as it would if Python's `random` decided it. Return the same number in each call"
        )


class NoFunction(WorkbenchError):
    """A journey from a file lacks the function and its weights, which a computation needs."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(
            f"{what} computes with the traced function and its weights, and {path} has neither. Trace the "
            "function again; on a loaded journey, views, selections, simulation and scheduling work"
        )
        self.path = path


class NotCopied(WorkbenchError, TypeError):
    """`copy` and `pickle` have no meaning for a journey, which holds a person's function and its live tensors."""

    def __init__(self) -> None:
        super().__init__(
            "a journey cannot be copied or pickled: it never changes, so use it as it is, and j.with_(...) makes one "
            'with other options. To keep it, write j.save("FILE.journey"); wb.load reads it again, in any process'
        )


class UnknownSelection(WorkbenchError, LookupError):
    """The argument of `j.select` is not in the journey."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"nothing in this journey is {what}: {hint}")


class AmbiguousSelection(WorkbenchError, LookupError):
    """The text given to `j.select` names several things."""

    def __init__(self, what: str, meanings: list[str]) -> None:
        super().__init__(f"{what!r} has {len(meanings)} meanings: {', '.join(meanings)}. Use one of them")
        self.meanings = tuple(meanings)
