"""PyTorch's ops with graphs as arguments, as the objects that a mode gives a rule for."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, cast

from workbench.ground.torch_inside.needs import takes

with takes(
    "torch._higher_order_ops.cond.cond_op",
    "torch._higher_order_ops.map.map_impl",
    "torch._higher_order_ops.scan.scan_op",
    "torch._higher_order_ops.while_loop.while_loop_op",
    use="The ops for branches and loops: a mode of ours says how each is computed in another arithmetic.",
    instead="torch.cond and its like call these, and take no rule for a mode",
):
    from torch._higher_order_ops.cond import cond_op as cond_op
    from torch._higher_order_ops.map import map_impl as map_impl
    from torch._higher_order_ops.scan import scan_op as scan_op
    from torch._higher_order_ops.while_loop import while_loop_op as while_loop_op

with takes(
    "torch._higher_order_ops.flex_attention.flex_attention",
    use="The op for attention with a user's function of scores, for which a mode of ours says how it is computed.",
    instead="torch.nn.attention.flex_attention calls it, and takes no rule for a mode",
):
    from torch._higher_order_ops.flex_attention import flex_attention as flex_attention


@takes("torch._higher_order_ops.flex_attention.math_attention", instead="none")
def attention_by_products() -> Callable[..., tuple[Any, ...]]:
    """Returns PyTorch's definition of `flex_attention` by its products and its softmax."""
    return cast(Any, importlib.import_module("torch._higher_order_ops.flex_attention")).math_attention
