"""Journeys whose texts are scripts: every text field of a file, and every name that a live program can have.

A text is followed by HTML that would run `__ran=1` wherever it was taken for HTML: in a text, in an attribute, in a
script, a style or a comment. `dangers` reads a page as a browser does and names what could run.
"""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import Any, Final

import numpy as np
import torch

import workbench as wb
from tests.crafted.craft import Members, _json, _members, _zipped

RAN: Final = "__ran"
"""The variable of a page that a script of ours would set."""

SCRIPTS: Final = (
    f"<img src=x onerror={RAN}=1>",
    f'"><svg onload={RAN}=1>',
    f"' onmouseover='{RAN}=1' autofocus onfocus='{RAN}=1' x='",
    f"</script><script>{RAN}=1</script>",
    f"<!--<script>{RAN}=1</script>-->",
    f"</style><script>{RAN}=1</script>",
    f"</title><img src=x onerror={RAN}=1>",
    f"]]></text></svg><img src=x onerror={RAN}=1>",
    f'<iframe srcdoc="<script>parent.{RAN}=1</script>">',
    f"<details open ontoggle={RAN}=1>",
    f"&lt;img src=x onerror={RAN}=1&gt;",
    f'<a href="javascript:{RAN}=1" id=clicked>x</a>',
    f"{{{{{RAN}=1}}}}${{{RAN}=1}}",
)
EVERY: Final = "".join(SCRIPTS)

_JSON_PARTS = ("journey.json", "lowered.json", "rendered.json", "scheduled.json")
_OWN = ("checksum", "members", "format", "schema", "made_by")
"""Parts of a file that describe the file itself and that no page shows."""

Way = tuple[str, ...]


def _read(data: bytes) -> tuple[Members, dict[str, Any]]:
    """The parts of a file, and the texts in them: of arrays, the header."""
    members = _members(data)
    found = {name: json.loads(members[name]) for name in _JSON_PARTS}
    for name in (each for each in members if each.endswith(".npz")):
        with np.load(io.BytesIO(members[name])) as file:
            found[name] = json.loads(file["header"].tobytes())
    return members, found


def _written(members: Members, texts: dict[str, Any]) -> bytes:
    made = dict(members)
    for name, found in texts.items():
        if name in _JSON_PARTS:
            made[name] = _json(found)
            continue
        with np.load(io.BytesIO(members[name])) as file:
            arrays: dict[str, Any] = {each: file[each] for each in file.files}
        arrays["header"] = np.frombuffer(_json(found), np.uint8)
        out = io.BytesIO()
        np.savez_compressed(out, **arrays)
        made[name] = out.getvalue()
    return _zipped(made)


def _inside(way: Way, key: str) -> Way:
    """The way to a value of an object; names that are keys count as one."""
    return (*way, "*" if _is_named(way) else key)


def _is_named(way: Way) -> bool:
    return way[-1:] in (("types",), ("sources",), ("seconds",))


def _texts(found: Any, way: Way = ()) -> Iterator[tuple[Way, str]]:
    """The texts in nested lists and objects, keys as well, and the way to each without numbers and names."""
    if isinstance(found, dict):
        for key, value in found.items():
            if not way and key in _OWN:
                continue
            if _is_named(way):
                yield (*way, "key"), key
            yield from _texts(value, _inside(way, key))
    elif isinstance(found, list):
        for value in found:
            yield from _texts(value, (*way, "*"))
    elif isinstance(found, str):
        yield way, found


@functools.cache
def fields(data: bytes) -> dict[Way, list[str]]:
    """Every text field of a file, and its texts."""
    found: dict[Way, list[str]] = {}
    for name, texts in _read(data)[1].items():
        for way, text in _texts(texts):
            kept = found.setdefault(_kind((name, *way)), [])
            if text not in kept:
                kept.append(text)
    return found


def with_scripts(data: bytes, chosen: list[Way], script: str) -> bytes:
    """The file with a script behind each text of the chosen fields. A text that is a name is changed wherever the file
    has it, so that its parts still fit together; an empty one only there."""
    members, texts = _read(data)
    every = fields(data)
    renamed = {text: text + script for way in chosen for text in every[way] if text}

    def changed(found: Any, way: Way) -> Any:
        if isinstance(found, dict):
            return {_key(key): changed(value, _inside(way, key)) for key, value in found.items()}
        if isinstance(found, list):
            return [changed(value, (*way, "*")) for value in found]
        if found == "" and _kind(way) in chosen:
            return script
        return renamed.get(found, found) if isinstance(found, str) else found

    def _key(key: str) -> str:
        file, colon, line = key.rpartition(":")
        return renamed.get(key) or (f"{renamed[file]}{colon}{line}" if file in renamed else key)

    kept = {key: texts["journey.json"][key] for key in _OWN if key in texts["journey.json"]}
    texts = {name: changed(found, (name,)) for name, found in texts.items()}
    texts["journey.json"] |= kept
    return _written(members, texts)


def _kind(way: Way) -> Way:
    """A way with all programs as one."""
    return ("programs", *way[1:]) if way[0].startswith("programs/") else way


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        if tag in ("img", "iframe", "object", "embed", "form", "base", "textarea"):
            self.found.append(f"<{tag}>")
        for name, value in attrs:
            address = (value or "").strip().lower()
            if name.startswith("on") or name == "srcdoc" or address.startswith("javascript:"):
                self.found.append(f"{name}={value!r:.80}")

    handle_startendtag = handle_starttag


def dangers(page: str, *, scripts: int = 0) -> list[str]:
    """Elements and attributes of a page that could run and are not ours; `scripts` of its elements are."""
    read = _Tags()
    read.feed(page)
    return [*read.found, *(["<script>"] if read.scripts != scripts else [])]


def shown_html(journey: wb.Journey) -> Iterator[tuple[str, str]]:
    """The HTML that a notebook shows for every handle of a journey, by name."""
    simulated, kernels = journey.simulated, journey.scheduled.kernels
    looks: dict[str, Callable[[], Any]] = {
        "journey": lambda: journey,
        "overview": lambda: journey.overview,
        "captured": lambda: journey.captured,
        "lowered": lambda: journey.lowered,
        "rendered": lambda: journey.rendered,
        "scheduled": lambda: journey.scheduled,
        "simulated": lambda: simulated,
        "machine": lambda: journey.machine,
        "scratchpad": lambda: simulated.scratchpad,
        "roofline": lambda: simulated.roofline,
        "moment": lambda: simulated.at(1),
        "findings": lambda: journey.findings,
        "knobs": lambda: journey.knobs(),
        "selection": lambda: journey.select(0),
        "selected kernel": lambda: journey.select(journey.lowered.kernels[0].name),
        "comparison": lambda: wb.compare(journey, journey),
        **{f"kernel {number}": lambda each=each: each for number, each in enumerate(kernels[:4])},
        **{f"passes {number}": lambda each=each: each.passes for number, each in enumerate(kernels[:4])},
        **{f"program {number}": lambda each=each: each.program for number, each in enumerate(kernels[:4])},
        **{f"tiles {number}": lambda each=each: each.tiles for number, each in enumerate(kernels[:4])},
        **{f"text {number}": lambda each=each: each for number, each in enumerate(journey.rendered.kernels[:4])},
    }
    for name, make in looks.items():
        try:
            made = make()
        except (wb.WorkbenchError, AttributeError):
            continue
        yield name, html_of(made)


def html_of(shown: Any) -> str:
    """The HTML of an object, as a notebook asks for it."""
    if hasattr(shown, "_repr_mimebundle_"):
        return shown._repr_mimebundle_().get("text/html", "")
    return shown._repr_html_() or "" if hasattr(shown, "_repr_html_") else ""


def live_program(script: str) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """A model whose names are all scripts: its class, its modules' names, its file, a line of its code, and the names
    of its arguments."""
    name = script.replace(".", "").replace("\0", "")
    file = f"/nowhere/{script.replace('/', '')}.py"
    source = f"def forward(self, x, **more):\n    return self.run(x, more)  # {script}\n"
    space: dict[str, Any] = {}
    exec(compile(source, file, "exec"), space)  # the name of the file is the point

    def run(self: torch.nn.Module, x: torch.Tensor, more: dict[str, torch.Tensor]) -> torch.Tensor:
        for each in self.children():
            x = torch.relu(each(x))
        for each in more.values():
            x = x + each
        return x

    kind = type(f"Net{name}", (torch.nn.Module,), {"forward": space["forward"], "run": run})
    model = kind()
    model.add_module(f"fc{name}", torch.nn.Linear(8, 8))
    return model.eval(), (torch.randn(4, 8),), {f"more{name}": torch.randn(4, 8)}
