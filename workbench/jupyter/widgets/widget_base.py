# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# anywidget, ipywidgets and IPython have no types for the parts that are used here.
"""The common part of all widgets of the lab: questions and answers, errors, and what is left in a notebook.

The browser asks (`link.ask("lines", {...})` in common.js), and the method `answer_lines` answers. So no large data is
part of the widget's state: it is sent when it is shown. An error that a method raises is shown in the widget.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, cast

import anywidget
import traitlets
from IPython.display import publish_display_data
from markupsafe import Markup

from workbench.ground.basics import markup
from workbench.ground.basics.html_builder import html, trusted
from workbench.ground.errors import BadOption, WorkbenchError
from workbench.jupyter.widgets.answers import Answer, Buffer, Later
from workbench.jupyter.widgets.es_modules import joined_modules, styles
from workbench.jupyter.widgets.look import Look

VIEW: Final = "application/vnd.jupyter.widget-view+json"

_BESIDE = (
    # A notebook shows either the static twin or the widget below it: the widget, once it lives.
    ".jp-OutputArea-child:has(.wb-twin):has(+ .jp-OutputArea-child .wb-live){display:none}"
    ".jp-OutputArea-child:has(.wb-twin) + .jp-OutputArea-child:not(:has(.wb-live)){display:none}"
)


class LabWidget(anywidget.AnyWidget):
    """A widget made of an ES module of `js/`: `class Stepper(LabWidget, module="stepper.js", sheets=("stepper.css",))`.

    Subclasses answer the questions of their module in methods `answer_...(**asked)`, and return the HTML for readers
    without a kernel in `static_html`.
    """

    module_text = traitlets.Unicode("").tag(sync=True)
    """The ES module, which a page imports once however many widgets it has: see loader.js."""
    look = traitlets.Unicode("").tag(sync=True)
    """The view that `look_widget.js` shows: the first of the widget's."""
    live: bool = True
    """True until the widget is closed."""
    _module: ClassVar[str] = ""

    def __init_subclass__(cls, *, module: str = "", sheets: tuple[str, ...] = (), **rest: Any) -> None:
        if module:  # before anywidget looks at the class
            cls._module = module
            cls._esm = joined_modules("loader.js")
            cls._css = markup.SHEET.whole() + styles(("common.css", *sheets))
        super().__init_subclass__(**rest)

    @classmethod
    def sheet(cls) -> str:
        """The style sheet that its module needs."""
        return cls._css

    def __init__(self, *looks: Look, **traits: Any) -> None:
        self._ends: list[Callable[[], None]] = []
        self._looks = {look.name: look for look in looks}
        super().__init__(look=next(iter(self._looks), ""), **traits)
        self.on_msg(self._on_message)
        for look in looks:
            look.attach(self.tell)
            self.at_close(look.close)
        self.at_close(self._looks.clear)  # a notebook keeps what its cells showed, and so the widget

    @property
    def looks(self) -> Mapping[str, Look]:
        """The views below the widget, by name."""
        if not self.live:
            raise BadOption("the widget is closed, and its views with it: run its cell again")
        return self._looks

    @traitlets.default("module_text")
    def _joined(self) -> str:
        return joined_modules(self._module) if self._module else ""

    # Questions and answers

    def _on_message(self, _: object, content: object, buffers: list[Buffer]) -> None:
        """Answers one message from the browser, whatever it holds."""
        if not isinstance(content, Mapping):
            return  # not from a front end of ours
        message = cast("Mapping[str, Any]", content)
        number, ask = message.get("id"), str(message.get("ask"))

        def work_out() -> Answer | Later:
            given = {**message.get("given", {}), **({"buffers": buffers} if buffers else {})}
            look, _, part = ask.partition(".")
            if look in self._looks:
                return self._looks[look].answer(part, given)
            method = cast("Callable[..., Answer | Later] | None", getattr(self, f"answer_{ask}", None))
            if method is None:
                raise ValueError(f"{type(self).__name__} has no answer to {ask!r}")
            return method(**given)

        self._answer(number, work_out)

    def _answer(self, number: object, work_out: Callable[[], Answer | Later]) -> None:
        """Sends a computed answer, or the error."""
        try:
            found = work_out() or {}
        except (Exception, KeyboardInterrupt) as error:  # an interrupt of the kernel ends its current work
            self._send_if_live({"id": number, "error": error_text(error)})
            return
        if isinstance(found, Later):
            threading.Thread(target=self._answer, args=(number, found.make), daemon=True).start()
            return
        plain, columns = found if isinstance(found, tuple) else (found, ())
        self._send_if_live({"id": number, "answer": dict(plain)}, columns)

    def _send_if_live(self, content: Mapping[str, object], buffers: Sequence[Buffer] = ()) -> None:
        if self.live:
            self.send(dict(content), buffers=list(buffers))

    def tell(self, what: str, given: Mapping[str, object], buffers: Sequence[Buffer] = ()) -> None:
        """Sends an unrequested message: `link.on(what, ...)` receives it."""
        self._send_if_live({"tell": what, "given": dict(given)}, buffers)

    # Ending

    def at_close(self, end: Callable[[], None]) -> None:
        """Registers `end`, which is called once when the widget is closed, to unsubscribe and to release memory."""
        self._ends.append(end)

    def close(self) -> None:
        """Takes the widget off the page and releases all that it holds."""
        if not self.live:
            return
        self.live = False
        while self._ends:
            self._ends.pop()()
        self.on_msg(self._on_message, remove=True)
        self.layout.close()  # the layout is a widget of its own
        super().close()
        vars(self).pop("_repr_mimebundle_", None)  # ipywidgets puts None there, which cannot be called

    # The state that a notebook keeps

    def static_html(self) -> Markup:
        """HTML for readers without a kernel, which needs nothing else."""
        raise NotImplementedError

    def _repr_mimebundle_(self, **_: object) -> tuple[dict[str, object], dict[str, object]]:
        if not self.live:
            return {"text/plain": repr(self)}, {}
        view = {"version_major": 2, "version_minor": 0, "model_id": self.model_id}
        return {"text/plain": repr(self), "text/html": self._twin(), VIEW: view}, {}

    def _ipython_display_(self) -> None:
        """The static twin and the widget, as outputs of their own: a notebook that was opened and not run shows no
        other part of a widget's output."""
        bundle, _ = self._repr_mimebundle_()
        if twin := bundle.pop("text/html", None):
            publish_display_data({"text/plain": repr(self), "text/html": twin})
        publish_display_data(bundle)

    def _twin(self) -> Markup:
        return html('<div class="wb-twin"><style>{}</style>{}</div>', trusted(_BESIDE), self.static_html())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.live else 'closed'})"


def error_text(error: Exception | KeyboardInterrupt) -> str:
    """The text of an error for the widget: our errors have their message alone, all others also their class."""
    if isinstance(error, KeyboardInterrupt):
        return "Interrupted. Press again to go on."
    text = str(error) or "no more is known"
    return text if isinstance(error, WorkbenchError) else f"{type(error).__name__}: {text}"
