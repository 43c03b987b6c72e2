"""A whole journey on one page: opens from disk, needs no network and no kernel; without the lab also no script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from markupsafe import Markup

from workbench.explaining.views.pages.overview import Overview
from workbench.ground.basics import markup
from workbench.ground.basics.html_builder import NO_HTML, html, inside_script, joined, plain

_STAGES = (
    ("captured", "Captured", "what PyTorch was asked to compute"),
    ("lowered", "Lowered", "every call with its route, grouped into kernels"),
    ("rendered", "Rendered", "each kernel as MLIR on whole tensors"),
    ("scheduled", "Scheduled", "loops over scratchpad tiles: what runs and what is timed"),
    ("simulated", "Simulated", "when each instruction runs, on which unit, and what it waited for"),
)
_LAB = (
    ".wb.lab-part{max-width:1920px;margin:0 auto;padding:10px 14px 0}.wb.lab-part h1{font-size:20px;margin:4px 0 8px}"
    "#lab{max-width:1920px;margin:0 auto;padding:0 14px;box-sizing:border-box}#lab:empty{display:none}"
    "#static>div{max-width:1180px;margin:0 auto}"
)
_FEW_LINES = 12
"""Up to so many lines of Python are shown open above the stages."""


def journey_page(title: str, body: Markup) -> Markup:
    """The page that needs no script."""
    return markup.page(title, html("<h1>{title}</h1>{body}", title=title, body=body))


def journey_body(overview: Overview, sources: Mapping[str, str], bodies: Iterable[Markup]) -> Markup:
    """The part of a page below its title: the overview and the five stages' bodies, in order. The call that checks is
    left out, since nobody can make calls on a page."""
    parts = [replace(overview, no_check="").inside_html(), _python(sources)]
    ways = joined(html('<li><a href="#{}">{}</a> <span class="soft">{}</span></li>', *stage) for stage in _STAGES)
    parts.append(html("<ul>{ways}</ul>", ways=ways))
    for stage, body in zip(_STAGES, bodies, strict=True):
        parts.append(html('<h2 id="{}">{} <span class="soft">{}</span></h2>{}', *stage, body))
    return joined(parts)


def lab_page(title: str, body: Markup, *, sheet: str, script: str, record: str) -> Markup:
    """The page with the lab above: `script` is a module that opens `record` in it, and then folds `body` away. Until
    then, and where no script runs, `body` is open."""
    told = "All stages to read: overview, findings, texts and tables"
    whole = html(
        '<main><div class="wb lab-part"><h1>{title}</h1></div><div id="lab"></div>'
        '<div class="wb lab-part"><details id="static" open><summary>{told}</summary><div>{body}</div></details></div>'
        "</main>"
        '<script type="text/plain" id="record">{record}</script>'
        '<script type="module">{}</script>',
        inside_script(script),
        title=title,
        told=told,
        body=body,
        record=plain(record),
    )
    return markup.document(title, whole, sheet=sheet + _LAB)


def _python(sources: Mapping[str, str]) -> Markup:
    """The user's lines, file by file."""
    if not sources:
        return NO_HTML
    rows = NO_HTML
    for place, text in sources.items():
        short = place.replace("\\", "/").rpartition("/")[2]
        rows += html("<tr><th>{short}</th><td>{}</td></tr>", text.strip(), short=short)
    lines = html('<div class="scroll" tabindex="0"><table class="thread">{rows}</table></div>', rows=rows)
    return markup.details("lines of Python", lines, note=str(len(sources)), opened=len(sources) <= _FEW_LINES)
