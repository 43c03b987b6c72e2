"""Dynamo's reasons for ending a graph, in words for the author of the function."""

from __future__ import annotations

import ast
import re
from contextlib import AbstractContextManager

from workbench.ground.environment.call_sites import Place, place_of
from workbench.ground.environment.this_thread import unlogged_here
from workbench.ground.torch_inside.module_names import LOGS_OF_STACKS

_SAID = (
    (r"generic_jump", "a branch that depends on the data"),
    (r"logging\.Logger method not supported", "a message of a logger, which each call prints"),
    (r"Unsupported Tensor\.item\(\) call", "a number read from the data by item()"),
    (r"Dynamic shape operator\b.*?context: (?P<what>[\w.]+)", "a shape that depends on the data, of {what}"),
    (r"Skip calling `torch\.compiler\.disable\(\)`d function", "a function under torch.compiler.disable"),
    (r"Failed to trace builtin operator\b.*?context: builtin (?P<what>\w+)", "a call of {what}"),
    (r"Attempted to call function marked as skipped\b.*?the builtin `(?P<what>[\w.]+?)\.?`", "a call of {what}"),
)
"""Patterns of Dynamo's text about a break, each with a short reason."""


def ended_by(graph: object) -> tuple[str, Place]:
    """Dynamo's reason for ending a graph, in Dynamo's own words, and its place; an empty reason at the function's
    end."""
    reason = getattr(graph, "compile_subgraph_reason", None)
    if reason is None:
        return "", (None, None)
    stack = "".join(f'File "{frame.filename}", line {frame.lineno}, in \n' for frame in reason.user_stack)
    return str(reason.reason).strip() if reason.graph_break else "", place_of(stack)


def told(reason: str, file: str | None, line: int | None) -> str:
    """The reason with its place in front."""
    return f"{file}:{line}: {reason}" if file else reason


def in_words(said: str) -> str:
    """Returns Dynamo's reason in short; `said` is Dynamo's whole text."""
    for pattern, words in _SAID:
        if found := re.match(pattern, said, re.DOTALL):
            return words.format(**found.groupdict())
    first = said.strip().partition("\n")[0].strip().rstrip(".")
    explained = lines(said, "Explanation:")[:1]
    return _BUILT_IN.sub(r"\1", ": ".join([first, *explained]).rstrip("."))


_FAKED = re.compile(
    r"with fake tensors: call_\w+ (?:<[\w-]+ (?:function |method )?)?(?P<what>[\w.]+).*"
    r": got (?P<kind>\w+)\((?P<said>.*)\)$",
    re.MULTILINE,
)


def faked(said: str) -> str:
    """A call's error on stand-ins, without Dynamo's words around it: `RuntimeError: sizes differ, in matmul`; else
    empty."""
    found = _FAKED.search(said)
    if not found:
        return ""
    try:
        message = str(ast.literal_eval(found["said"]))
    except (SyntaxError, ValueError):
        message = found["said"]
    return f"{found['kind']}: {message.strip().partition(chr(10))[0].rstrip('.')}, in {found['what']}"


_BUILT_IN = re.compile(r"<built-in method (\w+) of .*? object at 0x\w+>")


def lines(said: str, label: str) -> list[str]:
    """The text after a label, for each line that begins with the label."""
    found = (line.strip() for line in said.splitlines())
    return [line.removeprefix(label).strip() for line in found if line.startswith(label)]


_GRADIENTS = re.compile(r"using `(torch\.autograd\.grad)`|Unsupported (Tensor\.backward\(\)) call")


def gradients_in(said: str) -> str:
    """The call that computes gradients, if a graph ends at such a call; else empty."""
    found = _GRADIENTS.match(said)
    return next(filter(None, found.groups())) if found else ""


_RESHAPED = re.compile(r".*calling `[^`]*?(\w+_)`.*inplace view on a graph input", re.DOTALL)


def reshaped_in(said: str) -> str:
    """The method that changes an input's shape, if a graph ends at such a method; else empty."""
    found = _RESHAPED.match(said)
    return found.group(1) if found else ""


def quiet() -> AbstractContextManager[None]:
    """Keeps PyTorch from printing messages that the workbench gives itself."""
    return unlogged_here(LOGS_OF_STACKS)
