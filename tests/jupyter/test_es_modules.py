"""ES modules put together into one text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from workbench.jupyter.widgets.es_modules import JS, BrokenModule, joined_modules

WIDGET = 'import { half } from "./half.js";\n\nexport default { render: () => half(4) };\n'


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.js").write_text(text)


def test_imports_come_once_and_before_their_readers(tmp_path: Path):
    write(
        tmp_path,
        entry='import { half } from "./half.js";\nimport { two } from "./two.js";\nexport default { half, two };\n',
        half='import { two } from "./two.js";\nexport function half(x) {\n  return x / two;\n}\n',
        two="export const two = 2;\n",
    )
    text = joined_modules("entry.js", tmp_path)
    assert re.findall(r"^// (\S+)", text, re.MULTILINE) == ["two.js", "half.js", "entry.js"]
    assert "import" not in text and text.count("export") == text.count("export default") == 1
    assert text.count("const two") == 1


def test_imports_over_several_lines_and_words_that_only_look_like_exports_are_left(tmp_path: Path):
    write(
        tmp_path,
        entry='import {\n  a,\n  b,\n} from "./two.js";\nexport default { a, b };\nconst exports_ = `\n  import x`;\n',
        two="export const a = 1;\nexport async function b() {}\n",
    )
    text = joined_modules("entry.js", tmp_path)
    assert "const a = 1;" in text and "async function b() {}" in text and "  import x" in text


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"entry": WIDGET}, "entry.js imports half.js, which is not in"),
        ({"entry": WIDGET, "half": "export const whole = 1;\n"}, "imports half from half.js, which exports whole"),
        ({"entry": WIDGET, "half": "const half = 1;\n"}, "imports half from half.js, which exports "),
        ({"entry": WIDGET + "const own = 1;\n", "half": "export const half = 1;\nlet own = 2;\n"}, "both define own"),
        ({"entry": WIDGET, "half": 'import { a } from "./entry.js";\nexport const half = 1;\n'}, "entry.js -> half.js"),
        ({"entry": 'import three from "three";\nexport default {};\n'}, "import three from"),
        ({"entry": "export default {};\nexport { a };\n"}, "export { a }"),
        ({"entry": "export default {};\nconst { a } = {};\n"}, "one name each"),
        ({"entry": "export const a = 1;\n"}, "no default export"),
        ({"entry": WIDGET, "half": "export const half = 1;\nexport default {};\n"}, "only the widget itself"),
    ],
)
def test_what_cannot_be_joined_is_refused_with_the_place(tmp_path: Path, files: dict[str, str], said: str):
    write(tmp_path, **files)
    with pytest.raises(BrokenModule, match=re.escape(said)):
        joined_modules("entry.js", tmp_path)


def test_every_file_of_ours_can_be_joined(tmp_path: Path):
    joined_modules.cache_clear()
    for path in JS.glob("*.js"):
        (tmp_path / path.name).write_text(path.read_text())
    for path in JS.glob("*.js"):
        text, entry = path.read_text(), path.name
        if not re.search(r"^export default\b", text, re.MULTILINE):
            defined = re.search(r"^export (?:async )?(?:function|const|let|class) ([\w$]+)", text, re.MULTILINE)
            assert defined, f"{path.name} exports nothing"
            entry = f"with_{path.name}"
            write(
                tmp_path,
                **{entry[:-3]: f'import {{ {defined[1]} }} from "./{path.name}";\nexport default {{ entry: 1 }};\n'},
            )
        assert text.strip().splitlines()[-1] in joined_modules(entry, tmp_path)
