"""Writes type stubs for the parts of torch-mlir that the library imports, into `typings/torch_mlir`.

The wheel ships compiled bindings without types, but each binding carries its signature, and nanobind's own stub writer
reads them. Missing types of plain Python modules become `Any`, so that pyright's strict mode complains about our code
and not about the wheel. Works only when the wheel, this script or the set of imported modules has changed.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.metadata
import importlib.util
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "typings" / "torch_mlir"
STAMP = OUT / ".made"
LIBRARY = ("workbench", "templates")
KEEPS_SIGNATURE = ("property", "staticmethod", "classmethod", "overload", "setter", "contextmanager", "functools.cache")
ALWAYS = ("torch_mlir", "torch_mlir.ir", "torch_mlir.passmanager")


def imported_modules() -> list[str]:
    """Every `torch_mlir...` name that an import statement of the library could mean."""
    found = set(ALWAYS)
    for path in sorted(path for folder in LIBRARY for path in (ROOT / folder).rglob("*.py")):
        found.update(modules_named_in(ast.parse(path.read_text(encoding="utf-8"))))
    return sorted(found)


def modules_named_in(tree: ast.AST, package: str = "") -> set[str]:
    """Modules of torch-mlir that the imports of a file may mean; `package` is the one the file lies in."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), package or None)
            found.update([base, *(f"{base}.{alias.name}" for alias in node.names)])
    return {name for name in found if name.split(".")[0] == "torch_mlir"}


def write_stubs(wanted: list[str]) -> int:
    """Stubs for the wanted modules and for all that their stubs import in turn; returns how many."""
    waiting, seen = list(wanted), set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        parent = name.rpartition(".")[0]
        waiting += [parent] if parent else []
        seen.add(name)
        text = stub(name)
        if text is None:
            seen.discard(name)
            continue
        path = OUT.joinpath(*name.split(".")[1:])
        is_package = any(other.startswith(f"{name}.") for other in sys.modules)
        path = path / "__init__.pyi" if is_package else path.with_suffix(".pyi")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        waiting += modules_named_in(ast.parse(text), sys.modules[name].__package__ or parent)
    return len(seen)


def stub(name: str) -> str | None:
    """The stub of one module; None when `name` is something inside a module."""
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError:
        return None
    source = Path(getattr(module, "__file__", None) or "")
    return python_stub(source, module) if source.suffix == ".py" else native_stub(module)


def native_stub(module: ModuleType) -> str:
    """The signatures that the bindings carry."""
    from nanobind.stubgen import StubGen

    # Loading the package puts a subclass in the place of the binding's own Context: describe the class itself.
    for name, value in vars(module).copy().items():
        if isinstance(value, type) and "<locals>" in value.__qualname__:
            setattr(module, name, value.__base__)
    writer = StubGen(module, include_private=True, include_docstrings=False)
    writer.put(module)
    # The bindings call their own module by the name it was compiled under.
    text = re.sub(r"(?<![\w.])_mlir\.", "torch_mlir._mlir_libs._mlir.", writer.get())
    # `Value` without a parameter is a value of any type.
    text = re.sub(
        r"(?<!_)TypeVar\((.)_T\1, bound=Type\)", "_TypeVar('_T', bound=Type, default=Type, covariant=True)", text
    )
    text = f"from typing_extensions import TypeVar as _TypeVar\n{text}"
    return f"from typing import Any as _Any\n{ast.unparse(Opened().visit(ast.parse(text)))}\n"


def python_stub(path: Path, module: ModuleType) -> str:
    """Names, classes, and functions that take anything and return their annotated types."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    body = [line for statement in tree.body for line in [*base_of_its_name(statement, module), *outline(statement)]]
    made = ast.Module(body or [ast.Expr(ast.Constant(...))], [])
    text = ast.unparse(ast.fix_missing_locations(Opened(parameters=True).visit(made)))
    # Generated dialect files reach the core bindings through a variable, which a type checker does not follow.
    text = text.replace("_ods_ir: _Any", "from torch_mlir import ir as _ods_ir")
    return f"from typing import Any as _Any\n{text}\n"


def base_of_its_name(statement: ast.stmt, module: ModuleType) -> list[ast.stmt]:
    """Imports the base of a class that has the class's own name, `class AddOp(AddOp)`, under another name."""
    found = list[ast.stmt]()
    if isinstance(statement, ast.ClassDef):
        for base in statement.bases:
            if isinstance(base, ast.Name) and base.id == statement.name:
                base.id = f"_Base{statement.name}"
                source = vars(module)[statement.name].__mro__[1].__module__
                found.append(ast.ImportFrom(source, [ast.alias(statement.name, base.id)], 0))
    return found


def outline(statement: ast.stmt) -> list[ast.stmt]:
    """The parts of a module's or a class's statement that belong in a stub."""
    if isinstance(statement, ast.Import):
        return [statement]
    if isinstance(statement, ast.FunctionDef):
        is_plain = all(ast.unparse(d).split(".")[-1] in KEEPS_SIGNATURE for d in statement.decorator_list)
        return [statement if is_plain else ast.AnnAssign(ast.Name(statement.name), ast.Name("_Any"), None, 1)]
    if isinstance(statement, ast.ImportFrom):
        # In a stub only `import a as a` passes a name on.
        names = [
            ast.alias(name.name, None if name.name == "*" else name.asname or name.name) for name in statement.names
        ]
        return [ast.ImportFrom(statement.module, names, statement.level)]
    if isinstance(statement, ast.ClassDef):
        body = [line for inner in statement.body for line in outline(inner)]
        kept = body or [ast.Expr(ast.Constant(...))]
        return [ast.ClassDef(statement.name, statement.bases, [], kept, [])]
    if isinstance(statement, ast.Try | ast.If):
        return [line for inner in statement.body for line in outline(inner)]
    if isinstance(statement, ast.Assign):
        names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
        return [ast.AnnAssign(ast.Name(name), ast.Name("_Any"), None, 1) for name in names if name != "__all__"]
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return [ast.AnnAssign(statement.target, ast.Name("_Any"), None, 1)]
    return []


class Opened(ast.NodeTransformer):
    """Functions without bodies, and `Any` wherever they say nothing (`parameters`: at every parameter)."""

    def __init__(self, *, parameters: bool = False) -> None:
        self.parameters = parameters

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        given = node.args
        positional = [*given.posonlyargs, *given.args]
        is_method = bool(positional) and positional[0].arg in ("self", "cls")
        for argument in (*positional[is_method:], *given.kwonlyargs, given.vararg, given.kwarg):
            if argument is not None and (self.parameters or argument.annotation is None):
                argument.annotation = ast.Name("_Any")
        given.defaults = [ast.Constant(...) for _ in given.defaults]
        given.kw_defaults = [default and ast.Constant(...) for default in given.kw_defaults]
        if node.returns is None:
            node.returns = ast.Name("None" if node.name == "__init__" else "_Any")
        node.body = [ast.Expr(ast.Constant(...))]
        return node


def main() -> None:
    wanted = imported_modules()
    version = importlib.metadata.version("torch-mlir")
    key = hashlib.sha256("\n".join([version, Path(__file__).read_text(encoding="utf-8"), *wanted]).encode()).hexdigest()
    if STAMP.exists() and STAMP.read_text(encoding="utf-8") == key:
        return
    shutil.rmtree(OUT, ignore_errors=True)
    count = write_stubs(wanted)
    STAMP.write_text(key, encoding="utf-8")
    sys.stderr.write(f"typings/torch_mlir: {count} stubs for torch-mlir {version}\n")


if __name__ == "__main__":
    main()
