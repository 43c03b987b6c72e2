"""HTML that needs nothing else: no script, no font, no file from anywhere, light or dark as the page around it is.

A fragment brings its own small style sheet, scoped to the class `wb`. Colours come from JupyterLab's variables where
there are any, so that a notebook's theme rules; elsewhere from the reader's own preference of light or dark.
"""

from __future__ import annotations

import html

STYLE = ""


def escape(text: str) -> str:
    return html.escape(text, quote=True)


def fragment(body: str) -> str:
    return f'<div class="wb"><style>{STYLE}</style>{body}</div>'
