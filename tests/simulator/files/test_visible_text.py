"""Tests that a file's texts are shown without effect on the terminal."""

from __future__ import annotations

import json
from typing import Any

import pytest

from simulator.files import visible_text
from simulator.machine.toml_text import parse_toml

NESTED: list[Any] = [{"a\x1b[2J": ["\x07", 3, None, "\u202eabc"]}, "\x9b1m", "\x7f\x00"]
SEEN: list[Any] = [{"a␛[2J": ["␇", 3, None, "\ufffdabc"]}, "\ufffd1m", "␡␀"]


@pytest.mark.parametrize("escaped", [True, False])
@pytest.mark.parametrize("packed", [True, False])
def test_what_would_act_is_a_sign(escaped: bool, packed: bool):
    text = json.dumps(NESTED, ensure_ascii=escaped)
    assert visible_text.of_json(text.encode() if packed else text) == SEEN


def test_all_else_stays():
    texts = ["a\tb\nc\r\n\fd", "naïve ∑ 模型 \u200e", r"\u001b as six letters", "é" * 3]
    assert visible_text.of_json(json.dumps(texts)) == texts


def test_a_machine_file_says_its_name_in_signs():
    assert parse_toml("m.toml", 'name = "a\\u001b[31mred"') == {"name": "a␛[31mred"}
