"""A notebook cell as the template of an operator."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jinja2
import torch

from workbench import verbs
from workbench.checking.check_report import Check
from workbench.ground.errors import BadOption, TemplateSyntaxError, WorkbenchError
from workbench.journey import Journey
from workbench.mlir.user_text import half_character
from workbench.operators.aten import registry
from workbench.scheduling.kernels.rendered_text import Place
from workbench.scheduling.kernels.template import Template


class InCell:
    """The place of a template's text that is a whole cell except for its first lines."""

    cell: str
    lines_before: int

    def _place(self) -> Place:
        return Place(type(self).__name__, self.cell, self.lines_before)


@dataclass(frozen=True)
class Cell:
    """The text, its operator, and its place."""

    operator: str
    text: str
    like: object
    """A class with tiles, buffers and options; None for the defaults."""
    kind: str
    cell: str
    lines_before: int

    @property
    def overloads(self) -> tuple[str, ...]:
        from workbench.operators.aten import overload_names

        return overload_names.overloads(self.operator)

    def register(self) -> None:
        """Registers the cell as the template of these overloads, if its text is Jinja."""
        template = self._template()
        if half := half_character(self.text):
            place = f"{self.cell}:{(half.line or 1) + self.lines_before}"
            raise TemplateSyntaxError(template.__name__, place, half.message)
        try:
            jinja2.Environment().parse(self.text)
        except RecursionError:
            told = "its Jinja is nested too deeply to be read: take expressions apart with {% set %}"
            raise TemplateSyntaxError(template.__name__, self.cell, told) from None
        except jinja2.TemplateSyntaxError as error:
            place = f"{self.cell}:{error.lineno + self.lines_before}"
            raise TemplateSyntaxError(template.__name__, place, error.message or "not valid Jinja") from None
        registry.DEFAULT.template(*self.overloads, kind=self.kind)(template)

    def tried(self, given: Sequence[object]) -> tuple[Journey, Check]:
        """The operator traced on these arguments, checked and simulated; if the text makes no kernel, the earlier
        registration stays."""
        namespace, name, *overload = self.overloads[0].split(".")
        packet = getattr(getattr(torch.ops, namespace), name)
        called: Any = getattr(packet, overload[0]) if self.operator.count(".") > 1 else packet

        def operator(*inputs: Any) -> object:
            return called(*inputs)

        with registry.DEFAULT.scope():
            self.register()
            try:
                journey = verbs.trace(operator, *given, on_missing="error")
            except WorkbenchError:
                raise
            except Exception:
                self._say_what_torch_refuses(operator, given)
                raise
            _ = journey.simulated
            right = journey.check()
        self.register()
        return journey, right

    def _say_what_torch_refuses(self, operator: Callable[..., object], given: Sequence[object]) -> None:
        """Raises for arguments that PyTorch itself refuses: they are a mistake in the magic's line."""
        try:
            operator(*given)
        except Exception as error:
            why = (str(error).splitlines() or [type(error).__name__])[:2]
            raise BadOption(f"{self.operator} does not take these arguments: {' '.join(why)}") from None

    def _template(self) -> type[Template]:
        like = self.like or Template
        if not (isinstance(like, type) and issubclass(like, Template)):
            raise BadOption(f"--like {like!r}: expected a subclass of workbench.scheduling.kernels.template.Template")
        name = "Cell_" + re.sub(r"\W+", "_", self.operator)
        body = {"source": self.text, "cell": self.cell, "lines_before": self.lines_before, "__module__": "__main__"}
        return type(name, (InCell, like), body)
