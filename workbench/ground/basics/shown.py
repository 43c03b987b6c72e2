"""The display of an object in a notebook."""

from __future__ import annotations

from markupsafe import Markup


class Shown:
    """Gives a notebook the object's HTML, with its `repr` beside it for every other reader."""

    def html(self) -> Markup:
        """The object as HTML that needs nothing else."""
        raise NotImplementedError

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self.html()}
