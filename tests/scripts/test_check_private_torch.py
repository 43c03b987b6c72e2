"""The border to PyTorch: private parts that are named elsewhere are found, in whatever way they are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.check_private_torch import in_border, needs, outside, violations

ROOT = Path(__file__).resolve().parents[2]

PRIVATE = {
    "a private module": "import torch._dynamo as dynamo",
    "a name of one": "from torch._ops import OpOverload",
    "a private name": "from torch.export import _trace",
    "an import in a function": "def f():\n    from torch._dynamo import config",
    "what PyTorch calls experimental": "from torch.fx.experimental.proxy_tensor import make_fx",
    "by its dotted name": "import torch\ntorch._C._dispatch_dump('aten::add')",
    "behind a cast": "import torch\ncast(Any, torch)._C",
    "by another name": "import torch\nc = cast(Any, torch)\nd = c.autograd\nd._engine_run_backward",
    "among others": "from torch import autograd, nn\na, b = cast('tuple[Any, Any]', (nn, autograd))\nb._make_grads",
    "in a text": "importlib.import_module('torch._dynamo.backends.registry')",
    "by getattr": "import torch\ngetattr(torch.autograd, '_make_grads')",
    "by a patch": "from torch import autograd\nmock.patch.object(autograd, '_make_grads', f)",
    "an attribute of an object": "op._schema.name",
    "its name": "getattr(op, '_schema', None)",
}
PUBLIC = (
    "import torch\ntorch.ops.aten._softmax.default",
    "self._schema = 1",
    "import numpy\nnumpy._core",
    "'Register it: torch.utils._pytree.register_pytree_node'",
    "import torch\ntorch.nn.Module.__call__",
)


@pytest.mark.parametrize("what", PRIVATE)
def test_a_private_part_outside_of_the_border_is_found(what: str) -> None:
    lines = PRIVATE[what].splitlines()
    assert {line for line, _ in outside(PRIVATE[what], {"_schema"})} == {len(lines)}


@pytest.mark.parametrize("code", PUBLIC)
def test_what_is_public_or_ours_may_be_named(code: str) -> None:
    assert list(outside(code, {"_schema"})) == []


def test_a_part_that_the_border_does_not_say_is_found() -> None:
    code = "import torch\n@takes('torch._C.one', instead='none')\ndef f():\n    torch._C.one()\n    torch._C.two()"
    assert [line for line, _ in in_border(code, ["torch._C.one"])] == [5]


def test_the_border_alone_names_private_parts() -> None:
    assert [f"{path.relative_to(ROOT)}:{line}: {told}" for path, line, told in violations(ROOT)] == []


def test_needs_are_read_from_functions_imports_and_constants(tmp_path: Path) -> None:
    folder = tmp_path / "workbench/ground/torch_inside"
    folder.mkdir(parents=True)
    (folder / "one.py").write_text(
        "with takes('torch._a', use='A.', instead='none'):\n    from torch import _a as _a\n"
        "B = takes('torch._b', use='B.', instead='none').names\n"
        "@contextmanager\n@takes('torch._c', instead='torch.c')\ndef c():\n    '''Does c.\n\n    And more.'''\n"
    )
    assert {(each.names, each.kind, each.paths, each.use, each.instead) for each in needs(tmp_path)} == {
        (("_a",), "import", ("torch._a",), "A.", "none"),
        (("B",), "constant", ("torch._b",), "B.", "none"),
        (("c",), "function", ("torch._c",), "Does c.", "torch.c"),
    }
