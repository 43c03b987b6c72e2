"""HTML that needs nothing else: no script, no font, no file from anywhere, light or dark as the page around it is.

A fragment brings its own style sheet, as much of it as it uses, scoped to the class `wb`. The colours of text and
background are JupyterLab's variables where they exist, so that a notebook follows its theme; elsewhere the reader's own
preference of light or dark decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from markupsafe import Markup

from workbench.ground.basics.colours import DARK, HUES, LIGHT, Style
from workbench.ground.basics.html_builder import NO_HTML, escaped, html, joined, trusted
from workbench.ground.basics.style_sheet import Sheet
from workbench.ground.basics.table import Cell, Table, shown

_COLOURS = {
    "ink": ("var(--jp-content-font-color1,#1c2128)", "var(--jp-content-font-color1,#e4e7eb)"),
    "soft": ("var(--jp-content-font-color2,#59636e)", "var(--jp-content-font-color2,#9aa4b0)"),
    "line": ("var(--jp-border-color2,#d8dde3)", "var(--jp-border-color2,#333b46)"),
    "ground": ("var(--jp-layout-color1,#ffffff)", "var(--jp-layout-color1,#14171c)"),
    "raised": ("var(--jp-layout-color2,#f3f5f8)", "var(--jp-layout-color2,#1d222a)"),
    "accent": ("#0b63b0", "#6cb6ff"),
    "mark": ("#fff1c2", "#4a3d12"),
    "good": ("#1a7f4b", "#4cc38a"),
    "bad": ("#b3261e", "#ff8f87"),
    "op": ("#0b63b0", "#79c0ff"),
    "ssa": ("#7a4a00", "#e3b778"),
    "type": ("#116b5b", "#5fd0b5"),
    "text": ("#8a2b5a", "#f0a0c8"),
    "number": ("#6639ba", "#c4a7ff"),
    "comment": ("#6a737d", "#8b949e"),
}
"""(light, dark) CSS by name."""
_PAGES_OWN = re.compile(r"var\(--[\w-]+,(.*)\)")
"""A variable of the page around, with the colour for pages that lack it."""
_BREAKS = re.compile(r"(?<=[,([{)\]}])(?=[^\s,.()\[\]{}])|(?<=\.)(?=[^\W\d])")
"""Places in code after which a line may end."""
_RULES = """
.wb{color:var(--ink);font:13px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;margin:2px 0 10px}
.wb *{box-sizing:border-box}
.wb h2{font-size:17px;margin:26px 0 8px}.wb .heading{font-size:14px;margin:16px 0 6px;font-weight:600}
.wb a{color:var(--accent)}
.wb p{margin:4px 0}.wb .soft{color:var(--soft)}.wb .mono,.wb code{font-family:ui-monospace,
"SF Mono",Menlo,Consolas,monospace;font-size:12px}
.wb code{background:none;padding:0;color:inherit}
.wb .scroll{overflow-x:auto;max-width:100%;margin:4px 0}
.wb .many{max-height:480px;overflow:auto;margin:4px 0;padding-right:4px}
.wb .scroll.tall{max-height:560px;overflow:auto}
.wb a{color:inherit;text-decoration-color:var(--soft)}
.wb table.t{border-collapse:collapse;font-size:12px;margin:0;width:auto;table-layout:auto}
.wb table.t th,.wb table.t td{padding:3px 10px;text-align:left;border:0;border-bottom:1px solid var(--line);
white-space:nowrap;
max-width:none;vertical-align:top;background:none;color:inherit}
.wb table.t td.w{white-space:normal;min-width:240px;max-width:520px}
.wb table.t th{font-weight:600;color:var(--soft);border-bottom:1px solid var(--soft)}
.wb table.t td.r,.wb table.t th.r{text-align:right;font-variant-numeric:tabular-nums}
.wb table.t tr:last-child td{border-bottom:0}
.wb details{border:1px solid var(--line);border-radius:6px;margin:6px 0;background:var(--ground)}
.wb summary{padding:5px 10px;cursor:pointer;font-weight:500;overflow-wrap:anywhere}
.wb summary .soft{font-weight:400}
.wb details>div{padding:2px 10px 8px;border-top:1px solid var(--line)}
.wb .code{font:12px/1.5 ui-monospace,"SF Mono",Menlo,Consolas,monospace;overflow:auto;max-height:520px;
border:1px solid var(--line);
border-radius:6px;background:var(--ground);margin:4px 0;padding:4px 0}
.wb .code .in{display:table;min-width:100%}
.wb .code .l{display:table-row}
.wb .code .l>span{display:table-cell;white-space:pre;padding:0 8px;vertical-align:top}
.wb .code .n{color:var(--soft);text-align:right;user-select:none;-webkit-user-select:none;opacity:.75;
width:1%}
.wb .code .n::before{content:attr(data-n)}
.wb .code .g{width:1%;user-select:none;-webkit-user-select:none;color:var(--soft);font-size:11px;
border-right:1px solid var(--line)}
.wb .code .g::after{content:attr(data-g)}
.wb .code .l.s>span{background:var(--mark)}
.wb .code .l.plus>span{background:color-mix(in srgb,var(--good) 16%,transparent)}
.wb .code .l.minus>span{background:color-mix(in srgb,var(--bad) 15%,transparent)}
.wb .code .l.at>span{color:var(--soft)}
.wb .both{display:grid;grid-template-columns:1fr 1fr;gap:6px}
.wb .both>.code{min-width:0;max-height:none}
.wb code.whole{user-select:all;-webkit-user-select:all;white-space:pre-wrap;overflow-wrap:anywhere}
.wb i.c{display:inline-block;width:7px;height:10px;margin-right:2px;border-radius:1px;vertical-align:-1px}
.wb .o{color:var(--op)}.wb .v{color:var(--ssa)}.wb .y{color:var(--type)}.wb .q{color:var(--text)}.wb .d{
color:var(--number)}
.wb .m{color:var(--comment);font-style:italic}
.wb .cards{display:flex;flex-wrap:wrap;gap:8px;margin:6px 0}
.wb .card{border:1px solid var(--line);border-radius:6px;padding:5px 12px;background:var(--ground);
min-width:92px}
.wb .card b{display:block;font-size:15px;font-variant-numeric:tabular-nums}.wb .card span{color:var(--soft);
font-size:11.5px}
.wb .bars{display:grid;grid-template-columns:max-content minmax(90px,1fr) max-content;gap:3px 10px;
align-items:center;font-size:12px;max-width:760px}
.wb .bars .b{height:11px;border-radius:2px;background:var(--raised);display:flex;overflow:hidden}
.wb .bars .b i{display:block;height:100%}
.wb .bars .r{text-align:right;font-variant-numeric:tabular-nums}
.wb .tree{border:1px solid var(--line);border-radius:6px;margin:6px 0;max-height:640px;overflow:auto;font-size:12px}
.wb .tree .row{display:grid;grid-template-columns:minmax(0,1fr) 56px clamp(74px,7vw,92px)
clamp(84px,10vw,130px) 62px;gap:0 8px;padding:1.5px 10px;align-items:center;font-variant-numeric:tabular-nums;
min-width:440px;box-sizing:border-box}
.wb .tree.plain .row{grid-template-columns:minmax(0,1fr) 58px;min-width:0}
.wb .tree .row>span{text-align:right;white-space:nowrap;overflow:hidden;text-overflow:ellipsis}
.wb .tree .row>span:first-child{text-align:left;padding-left:calc(var(--d,0)*16px + 14px);position:relative;
white-space:normal;overflow:visible;overflow-wrap:anywhere}
.wb .tree .row.head{position:sticky;top:0;z-index:1;background:var(--raised);font-weight:600;
padding:4px 10px;border-bottom:1px solid var(--line)}
.wb .tree .row>span:nth-child(4){position:relative;text-align:right}
.wb .tree .row i{position:absolute;left:0;top:2px;bottom:2px;border-radius:2px;min-width:1px;
background:color-mix(in srgb,var(--accent) 38%,transparent)}
.wb .tree .row b{position:relative;font-weight:400}
.wb .tree em{font-style:normal;margin-left:6px}
.wb .tree details{border:0;border-radius:0;margin:0;background:none}
.wb .tree details>div{padding:0;border:0}
.wb .tree summary{font-weight:500;list-style:none}
.wb .tree summary::-webkit-details-marker{display:none}
.wb .tree summary>span:first-child::before{content:"\\25B8";position:absolute;left:calc(var(--d,0)*16px)}
.wb .tree details[open]>summary>span:first-child::before{content:"\\25BE"}
.wb .tree .row:not(.head):hover{background:var(--raised)}
.wb .lead{font-size:14px;overflow-wrap:anywhere}
.wb .stages{display:flex;flex-wrap:wrap;gap:8px;margin:8px 0}
.wb .stages>div{flex:1 1 100px;border:1px solid var(--line);border-radius:6px;padding:5px 10px}
.wb .stages>div>*{display:block}.wb .stages .soft{font-size:11.5px}
.wb .stages b{font-size:14px;font-variant-numeric:tabular-nums}
.wb .findings{display:grid;grid-template-columns:repeat(auto-fit,minmax(max(230px,31%),1fr));gap:8px;margin:6px 0}
.wb .finding{border:1px solid var(--line);border-left:3px solid var(--accent);border-radius:6px;padding:5px 12px 7px;
background:var(--ground);overflow-wrap:anywhere;min-width:0}
.wb .finding>div{display:flex;flex-wrap:wrap;justify-content:space-between;gap:0 12px}
.wb .finding .stake{font-variant-numeric:tabular-nums}
.wb .finding code{background:var(--raised);padding:1px 4px;border-radius:3px}
.wb .legend{display:flex;flex-wrap:wrap;gap:3px 14px;font-size:12px;color:var(--soft);margin:4px 0}
.wb .legend i{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:5px;
vertical-align:-1px}
.wb svg{display:block;max-width:none;height:auto}
.wb svg text{fill:var(--ink);font-family:system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
.wb svg .soft{fill:var(--soft)}
.wb svg .mono{font-family:ui-monospace,"SF Mono",Menlo,Consolas,monospace}
.wb table.thread th{color:var(--soft);font-weight:600;text-align:left;padding:2px 14px 2px 0;
vertical-align:top;white-space:nowrap;background:none}
.wb table.thread td{text-align:left;padding:2px 0;
font:12px/1.5 ui-monospace,"SF Mono",Menlo,Consolas,monospace;white-space:pre-wrap;overflow-wrap:anywhere;
background:none}
"""


def colours(style: Style) -> dict[str, str]:
    """A style's colours by their names in the sheet."""
    told = {"faint": style.faint, "band": style.band, "busy": style.busy}
    told |= {f"k-{name}": colour for name, colour in style.kinds.items()}
    told |= {f"c-{name}": colour for name, colour in {**style.causes, **style.waits}.items()}
    return told | {f"h{number}": hue[style is DARK] for number, hue in enumerate(HUES)}


def _all(style: Style) -> dict[str, str]:
    return {name: pair[style is DARK] for name, pair in _COLOURS.items()} | colours(style)


SHEET = Sheet(_RULES, _all(LIGHT), _all(DARK))
"""The style sheet of our classes. A page has all of it, a fragment the rules that it uses."""


def all_colours(style: Style) -> dict[str, str]:
    """All colours of the sheet as plain values, for pictures that know no style sheet."""
    plain = {name: _PAGES_OWN.sub(r"\1", colour) for name, colour in _all(style).items()}
    return plain | {"ground": style.ground, "ink": style.ink}


_MOST_ROWS = 4000
"""The most rows of a table that are shown."""
_TALL = 40
"""Tables with more rows than this also scroll up and down by themselves."""


def breakable(code: str) -> Markup:
    """Code that may be wrapped after commas, dots and brackets, rather than inside names and numbers."""
    return joined(map(escaped, _BREAKS.split(code)), between=html("<wbr>"))


def heading(text: str) -> Markup:
    """The title of a part of an output. It is no HTML heading: JupyterLab would number it and list it as its own."""
    return html('<div class="heading">{text}</div>', text=text)


def fragment(body: Markup) -> Markup:
    """A piece of HTML with the style sheet that it needs, for any page."""
    return html('<div class="wb"><style>{}</style>{body}</div>', trusted(SHEET.used_by(body)), body=body)


def page(title: str, body: Markup) -> Markup:
    """A whole document around pieces without a style sheet of their own."""
    return document(title, html('<div class="wb page">{body}</div>', body=body), sheet=SHEET.whole())


def document(title: str, body: Markup, *, sheet: str) -> Markup:
    """A whole document; the content of `wb page` keeps a readable width."""
    frame = ":root{color-scheme:light dark}body{margin:0;background:#fff}"
    frame += "@media(prefers-color-scheme:dark){body{background:#14171c}}"
    width = ".wb.page{max-width:1180px;margin:0 auto;padding:14px 18px 40px}"
    return html(
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        "<title>{title}</title><style>{}</style></head><body>{body}</body></html>",
        trusted(frame + sheet + width),
        title=title,
        body=body,
    )


def table(data: Table, *, wide: tuple[str, ...] = (), named: tuple[str, ...] = ()) -> Markup:
    """A table that scrolls sideways by itself; numbers are aligned to the right, the `wide` columns wrap.

    Underscores in the names of columns become spaces, but not in the names listed in `named`.
    """
    numeric = [_numbers(row[place] for row in data.rows) for place in range(len(data.columns))]
    kinds = [
        _column_class("r" if right else "w" if name in wide else "")
        for name, right in zip(data.columns, numeric, strict=True)
    ]
    heads = [name if name in named else name.replace("_", " ") for name in data.columns]
    head = joined(html("<th{}>{}</th>", kind, name) for name, kind in zip(heads, kinds, strict=True))
    rows = (
        html("<tr>")
        + joined(html("<td{}>{}</td>", kind, shown(cell)) for cell, kind in zip(row, kinds, strict=True))
        + html("</tr>")
        for row in data.rows[:_MOST_ROWS]
    )
    body = html('<table class="t"><thead><tr>{head}</tr></thead><tbody>{}</tbody></table>', joined(rows), head=head)
    tall = " tall" if len(data.rows) > _TALL else ""
    rest = len(data.rows) - _MOST_ROWS
    more = html('<p class="soft">… and {:,} more rows, which .table has</p>', rest) if rest > 0 else ""
    return html('<div class="scroll{tall}" tabindex="0">{body}</div>{more}', tall=tall, body=body, more=more)


def _column_class(name: str) -> Markup:
    return html(' class="{}"', name) if name else NO_HTML


def _numbers(cells: Iterable[Cell]) -> bool:
    found = [isinstance(cell, int | float) and not isinstance(cell, bool) for cell in cells]
    return bool(found) and all(found)


def details(summary: str, body: Markup, *, note: str = "", opened: bool = False) -> Markup:
    """A part that opens on a click; `summary` and `note` are texts, `body` is HTML."""
    more = html(' <span class="soft">{note}</span>', note=note) if note else ""
    state = " open" if opened else ""
    return html(
        "<details{state}><summary>{summary}{more}</summary><div>{body}</div></details>",
        state=state,
        summary=summary,
        more=more,
        body=body,
    )


def cards(values: Mapping[str, str]) -> Markup:
    """Figures with their names."""
    made = (
        html('<div class="card"><b>{value}</b><span>{name}</span></div>', value=value, name=name)
        for name, value in values.items()
    )
    return html('<div class="cards">{}</div>', joined(made))


def legend(entries: Iterable[tuple[str, str]]) -> Markup:
    """A legend of (text, CSS colour) pairs, side by side."""
    made = (
        html('<span><i style="background:{colour}"></i>{text}</span>', colour=colour, text=text)
        for text, colour in entries
    )
    return html('<div class="legend">{}</div>', joined(made))


def bars(rows: Iterable[tuple[str, list[tuple[float, str, str]], str]]) -> Markup:
    """Bars below each other: name, parts as (share of the whole, colour, label), and the value in words."""
    made: list[Markup] = []
    for name, parts, value in rows:
        pieces = joined(
            html(
                '<i style="width:{:.2f}%;background:{colour}" title="{what}"></i>',
                100 * share,
                colour=colour,
                what=what,
            )
            for share, colour, what in parts
            if share > 0
        )
        made.append(
            html(
                '<span>{name}</span><span class="b">{pieces}</span><span class="r">{value}</span>',
                name=name,
                pieces=pieces,
                value=value,
            )
        )
    return html('<div class="scroll" tabindex="0"><div class="bars">{}</div></div>', joined(made))
