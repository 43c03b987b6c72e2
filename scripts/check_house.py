"""Checks the house rules that no linter has, and counts: circles of imports, long files, functions of many parameters,
files of one name, other ways to start a browser, HTML that is made without the builder, and private parts of PyTorch
outside of their folder. So does it with the changelog, the titles of commits and the first words of docstrings
(check_writing.py).

Prints each violation with its place, then the counts; the exit status is 1 if there is any.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts import check_markup, check_private_torch, check_writing  # noqa: E402 - found from the root

PACKAGES = ("simulator", "templates", "workbench")
NAMED = (*PACKAGES, "benchmarks", "scripts", "tests")
"""The folders in which a file's name stands for one file."""
MOST_LINES, MOST_PARAMETERS = 400, 8
STARTS_BROWSERS = "tests/browser/chromium.py"
PLAYWRIGHT_DRIVERS = ("playwright.sync_api", "playwright.async_api")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
MIRRORS = {
    "workbench.verbs": "the verbs of `wb`",
    "workbench.journey.with_": "the options of `wb.trace`",
    "workbench.operators.formulas": "formulas have the parameters of an ATen schema",
    "workbench.capturing.functional_graph._instance_norm": "so has this, of aten.instance_norm",
}
"""The functions that may have more parameters, and why."""


LOOKED_AT = dict[str, str]()
"""The files over `MOST_LINES` that somebody looked at twice, by import name, and why each is better whole."""


SAME_NAMES = {
    "__init__.py": "of each package",
    "__main__.py": "of each package that is a command",
    "conftest.py": "of each folder of tests",
    "judge.py": "of each search for programs and files that go wrong: its own right and wrong",
}
"""Names that files in several folders may have, and why."""


def modules(root: Path = ROOT) -> dict[str, Path]:
    """Every file of the library by its import name."""
    found = dict[str, Path]()
    for package in PACKAGES:
        for path in (root / package).rglob("*.py"):
            name = ".".join(path.relative_to(root).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = path
    return found


def imported(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """The files that a file imports anywhere in it: of `from package import name` the one of that name, if there is; of
    a name that is put together, `import_module(f"package.{name}")`, the package."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in known else node.module for name in names)
        elif isinstance(node, ast.Call) and _called(node) == "import_module":
            yield from (name for name in map(_literal, node.args) if name in known)


def _literal(argument: ast.expr) -> str:
    """The name that a text says, or its beginning where the rest is put together; `own_name` says it for the wheel."""
    if isinstance(argument, ast.Call) and _called(argument) == "own_name":
        return _literal(argument.args[0])
    if isinstance(argument, ast.JoinedStr) and argument.values:
        return _literal(argument.values[0]).rpartition(".")[0]
    return str(argument.value) if isinstance(argument, ast.Constant) else ""


def _called(call: ast.Call) -> str:
    """The last part of the called name."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def imports(known: dict[str, Path]) -> dict[str, set[str]]:
    """Who imports whom, whether late, by name or for types alone."""
    return {name: set(imported(path, known)) - {name} for name, path in known.items()}


def circle(known: dict[str, Path]) -> list[str]:
    """Files that import one another in a circle; empty where there is none."""
    try:
        TopologicalSorter(imports(known)).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def long_files(known: dict[str, Path], looked_at: Mapping[str, str] = LOOKED_AT) -> dict[str, str]:
    """Long files that nobody looked at twice, and files that are in that list though they are short."""
    lines = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in known.items()}
    long = {name for name, count in lines.items() if count > MOST_LINES}
    ask = (
        "look at it twice: split it where a reader would, or say in LOOKED_AT of scripts/check_house.py why it is whole"
    )
    unread = {name: f"{lines[name]} lines; {ask}" for name in sorted(long - looked_at.keys())}
    return unread | {name: "stands in LOOKED_AT, and is short or gone" for name in sorted(looked_at.keys() - long)}


def parameters(path: Path) -> Iterator[tuple[str, int]]:
    """Every function of a file with the number of its parameters, the object of a method left out."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            yield node.name, len(names) - (names[:1] in (["self"], ["cls"]))


def many_parameters(known: dict[str, Path]) -> dict[str, int]:
    """Functions with too many parameters, except those in `MIRRORS`."""
    counted = {f"{name}.{function}": count for name, path in known.items() for function, count in parameters(path)}
    mirrors = tuple(MIRRORS)
    return {
        function: count
        for function, count in counted.items()
        if count > MOST_PARAMETERS and not any(f"{function}.".startswith(f"{each}.") for each in mirrors)
    }


def same_names(root: Path = ROOT) -> dict[str, list[str]]:
    """Names that files in several folders have, with those folders: a reader mixes such files up."""
    folders: dict[str, list[str]] = {}
    for path in sorted(path for folder in NAMED for path in (root / folder).rglob("*.py")):
        folders.setdefault(path.name, []).append(path.parent.relative_to(root).as_posix())
    return {name: found for name, found in folders.items() if len(found) > 1 and name not in SAME_NAMES}


def browser_starts(root: Path = ROOT) -> list[str]:
    """The places beside `STARTS_BROWSERS` that start a browser: there tests would fail where none is installed."""
    found = list[str]()
    for path in sorted(path for folder in NAMED[len(PACKAGES) :] for path in (root / folder).rglob("*.py")):
        place = path.relative_to(root).as_posix()
        if place not in (STARTS_BROWSERS, "scripts/check_house.py"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            lines = sorted({node.lineno for node in ast.walk(tree) if _starts_browser(node)})
            found += [f"{place}:{line}" for line in lines]
    return found


def _starts_browser(node: ast.AST) -> bool:
    """True for the import of Playwright's driver, its calls that launch a browser, and a browser's own program."""
    if isinstance(node, ast.ImportFrom):
        return node.module in PLAYWRIGHT_DRIVERS and any(each.name.endswith("_playwright") for each in node.names)
    if isinstance(node, ast.Call) and _called(node) in ("launch", "launch_persistent_context"):
        return any(each.arg in ("executable_path", "headless", "args", "channel") for each in node.keywords)
    return isinstance(node, ast.Constant) and (node.value in BROWSERS or str(node.value).startswith("--headless"))


def main() -> int:
    known = modules()
    round_about, long, many, same = circle(known), long_files(known), many_parameters(known), same_names()
    browsers = browser_starts()
    if round_about:
        print(f"imports in a circle: {' -> '.join(round_about)}")
    for name, problem in long.items():
        print(f"{known[name].relative_to(ROOT) if name in known else name}: {problem}")
    for function, count in many.items():
        print(f"{function}: {count} parameters; expected {MOST_PARAMETERS} at most")
    for name, folders in same.items():
        print(f"{name}: in {', '.join(folders)}; expected a name of its own for each")
    for place in browsers:
        print(f"{place}: starts a browser; expected only {STARTS_BROWSERS} to, so that tests skip where there is none")
    marked, private = list(check_markup.violations(ROOT)), list(check_private_torch.violations(ROOT))
    for path, line, told in marked + private:
        print(f"{path.relative_to(ROOT)}:{line}: {told}")
    written = list(check_writing.violations(ROOT))
    print(*written, sep="\n", end="\n" if written else "")
    print(
        f"{len(known)} files: {int(bool(round_about))} circles, "
        f"{len(long)} files over {MOST_LINES} lines not looked at twice ({len(LOOKED_AT)} were), "
        f"{len(many)} functions over {MOST_PARAMETERS} parameters, {len(same)} names of several files, "
        f"{len(browsers)} other ways to start a browser, {len(marked)} places of HTML without the builder, "
        f"{len(private)} private parts of PyTorch outside of {check_private_torch.BORDER}, "
        f"{check_writing.summary(ROOT)}"
    )
    return int(bool(round_about or long or many or same or browsers or marked or private or written))


if __name__ == "__main__":
    sys.exit(main())
