"""The style sheet, whole for a page or cut down to what one piece of HTML uses.

A notebook may show an output alone: others are not drawn before they are scrolled to, or were deleted. So each output
brings the rules that it needs, and no more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
_CLASS, _TAG = re.compile(r"\.([A-Za-z][\w-]*)"), re.compile(r"(?:^|(?<=[\s>]))([a-z][a-z0-9]*)")
_VARIABLE = re.compile(r"var\(--([\w-]+)")
_SAME = re.compile(r"(var\(--[\w-]+,)(.*)\)")
_THEMES = (
    'body[data-jp-theme-light="true"] .wb{color-scheme:light}body[data-jp-theme-light="false"] .wb{color-scheme:dark}'
)


@dataclass(frozen=True)
class Sheet:
    """CSS rules below the class `wb`, and the variables that they use: the light and the dark value by name."""

    rules: str
    light: Mapping[str, str]
    dark: Mapping[str, str]

    def whole(self) -> str:
        return self._written(self.light, (f"{selectors}{{{what}}}" for selectors, what in self._parsed))

    def used_by(self, body: str) -> str:
        """The rules that can apply to something in this HTML, and the variables that these and the HTML use."""
        classes = {name for value in re.findall(r'class="([^"]*)"', body) for name in value.split()} | {"wb"}
        tags = set(re.findall(r"<([a-z][a-z0-9]*)", body)) | {"div"}
        rules: list[str] = []
        for selectors, what in self._parsed:
            fitting = [
                each
                for each in selectors.split(",")
                if set(_CLASS.findall(each)) <= classes and set(_TAG.findall(each)) <= tags
            ]
            if fitting:
                rules.append(f"{','.join(fitting)}{{{what}}}")
        return self._written(set(_VARIABLE.findall(body + "".join(rules))), rules)

    @cached_property
    def _parsed(self) -> list[tuple[str, str]]:
        found = _RULE.findall(" ".join(self.rules.split("\n")))
        return [(",".join(part.strip() for part in selectors.split(",")), what.strip()) for selectors, what in found]

    def _written(self, names: Iterable[str], rules: Iterable[str]) -> str:
        text = "".join(f"--{name}:{self._value(name)};" for name in self.light if name in names)
        # The colour scheme decides between light and dark, also for the browser's own scrollbars.
        return f".wb{{color-scheme:light dark;{text}}}{_THEMES}{''.join(rules)}"

    def _value(self, name: str) -> str:
        light, dark = self.light[name], self.dark[name]
        ours, theirs = _SAME.fullmatch(light), _SAME.fullmatch(dark)
        if ours and theirs:  # the page's own colour, where it has one
            return f"{ours[1]}light-dark({ours[2]},{theirs[2]}))"
        return light if light == dark else f"light-dark({light},{dark})"
