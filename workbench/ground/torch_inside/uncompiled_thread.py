"""A thread in which functions of `torch.compile` run uncompiled, while other threads run them compiled.

PyTorch's setting for this, a stance, is shared by all threads: a user's function that another thread calls at that
moment would run uncompiled as well.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final, cast

from workbench.ground.environment.turns import own_lock
from workbench.ground.torch_inside.needs import takes


class _Stance:
    """PyTorch's stance, which is `force_eager` in some threads."""

    def __init__(self, given: object) -> None:
        self.given, self.uncompiled = given, Counter[int]()

    @property
    def stance(self) -> str:
        return "force_eager" if self.uncompiled[threading.get_ident()] else cast(Any, self.given).stance

    def __getattr__(self, name: str) -> object:
        return getattr(self.given, name)


_LOCK: Final = own_lock()


@contextmanager
@takes("torch._dynamo.eval_frame._stance", instead="torch.compiler.set_stance, which is one for all threads")
def uncompiled_here() -> Generator[None]:
    """Within the block functions that `torch.compile` made run in this thread as they are written."""
    from torch._dynamo import eval_frame

    module, me = cast(Any, eval_frame), threading.get_ident()
    with _LOCK:
        if not isinstance(module._stance, _Stance):
            module._stance = _Stance(module._stance)
        stance: _Stance = module._stance
        stance.uncompiled[me] += 1
    try:
        yield
    finally:
        with _LOCK:
            stance.uncompiled[me] -= 1
            if not +stance.uncompiled and module._stance is stance:
                module._stance = stance.given
