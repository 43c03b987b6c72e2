"""A whole journey on one page: opens from disk, needs no network, no script and no kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from workbench.views import markup
from workbench.views.overview import Overview

_STAGES = (
    ("captured", "Captured", "what PyTorch was asked to compute"),
    ("lowered", "Lowered", "every call with its route, grouped into kernels"),
    ("rendered", "Rendered", "each kernel as MLIR on whole tensors"),
    ("scheduled", "Scheduled", "loops over scratchpad tiles: what runs and what is timed"),
    ("simulated", "Simulated", "when each instruction runs, on which unit, and what it waited for"),
)
_FEW_LINES = 12
"""Lines of Python that stand open before the stages."""


def journey_page(title: str, overview: Overview, sources: Mapping[str, str], bodies: Iterable[str]) -> str:
    """The page from the overview and the five stages' bodies, in order. Nobody can call anything on it."""
    parts = [f"<h1>{markup.escape(title)}</h1>", replace(overview, no_check="").inside_html(), _python(sources)]
    ways = "".join(
        f'<li><a href="#{key}">{name}</a> <span class="soft">{what}</span></li>' for key, name, what in _STAGES
    )
    parts.append(f"<ul>{ways}</ul>")
    for (key, name, what), body in zip(_STAGES, bodies, strict=True):
        parts.append(f'<h2 id="{key}">{name} <span class="soft">{what}</span></h2>{body}')
    return markup.page(title, "".join(parts))


def _python(sources: Mapping[str, str]) -> str:
    """The user's lines, file by file."""
    if not sources:
        return ""
    rows = ""
    for place, text in sources.items():
        short = place.replace("\\", "/").rpartition("/")[2]
        rows += f"<tr><th>{markup.escape(short)}</th><td>{markup.escape(text.strip())}</td></tr>"
    lines = f'<div class="scroll" tabindex="0"><table class="thread">{rows}</table></div>'
    return markup.details("lines of Python", lines, note=str(len(sources)), opened=len(sources) <= _FEW_LINES)
