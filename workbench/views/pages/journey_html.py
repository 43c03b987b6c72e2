"""A whole journey on one page: opens from disk, needs no network and no kernel; without the lab also no script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from workbench.views.basics import markup
from workbench.views.pages.overview import Overview

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
"""Lines of Python that stand open before the stages."""


def journey_page(title: str, body: str) -> str:
    """The page that needs no script."""
    return markup.page(title, f"<h1>{markup.escape(title)}</h1>{body}")


def journey_body(overview: Overview, sources: Mapping[str, str], bodies: Iterable[str]) -> str:
    """What stands below a page's title: the overview and the five stages' bodies, in order. Nobody can call anything
    on a page."""
    parts = [replace(overview, no_check="").inside_html(), _python(sources)]
    ways = "".join(
        f'<li><a href="#{key}">{name}</a> <span class="soft">{what}</span></li>' for key, name, what in _STAGES
    )
    parts.append(f"<ul>{ways}</ul>")
    for (key, name, what), body in zip(_STAGES, bodies, strict=True):
        parts.append(f'<h2 id="{key}">{name} <span class="soft">{what}</span></h2>{body}')
    return "".join(parts)


def lab_page(title: str, body: str, *, sheet: str, script: str, record: str) -> str:
    """The page with the lab above: `script` is a module that opens `record` in it, and then folds `body` away. Until
    then, and where no script runs, `body` is open."""
    told = "All stages to read: overview, findings, texts and tables"
    parts = (
        f'<main><div class="wb lab-part"><h1>{markup.escape(title)}</h1></div><div id="lab"></div>'
        f'<div class="wb lab-part"><details id="static" open><summary>{told}</summary><div>{body}</div></details></div>'
        "</main>"
        f'<script type="text/plain" id="record">{record}</script>'
        f'<script type="module">{_inside_script(script)}</script>'
    )
    return markup.document(title, "".join(parts), sheet=sheet + _LAB)


def _inside_script(text: str) -> str:
    """JavaScript that no word in it ends."""
    return text.replace("</script", r"<\/script").replace("<!--", r"<\!--")


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
