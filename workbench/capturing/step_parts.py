"""The part, the module and the line of each op of a training step, noted while the step is called on stand-ins.

Ops that autograd's engine calls belong to the backward pass, ops that an optimizer's `step` calls to the step. All
other ops belong to the forward pass, unless they work on gradients: clipping gradients is part of the step.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import CodeType
from typing import Any, cast
from unittest import mock

import torch
import torch.fx.traceback as fx_traceback
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode

from workbench.capturing.functional_graph import substitute
from workbench.capturing.left_tensors import StepTensors
from workbench.capturing.step_numbers import lists_one_by_one, step_call
from workbench.capturing.training_state import Initial
from workbench.ground import errors
from workbench.ground.environment.call_sites import lines_inside, place_text
from workbench.ground.torch_inside.autograd_inside import engine_as, first_gradients_as
from workbench.ground.torch_inside.fake_tensors import FakeTensor
from workbench.ground.torch_inside.functorch_layers import transform_at_work
from workbench.ground.torch_inside.pytrees import tensors_in
from workbench.ir import BACKWARD, STEP

_MODULES = cast(Any, torch.nn.modules.module)
_DATA = cast(Any, torch.Tensor.data)
_READS = frozenset(("numpy", "__array__", "__dlpack__", "data_ptr", "tolist", "__format__"))
"""Methods of a tensor that give its data to Python."""
_PLACE = "workbench"
"""The key in the metadata of an autograd node for the place of the call that made the node."""


@dataclass(frozen=True)
class Known:
    """The tensors and optimizers that the trace found in the function, by `id`."""

    tensors: set[int]
    optimizers: set[int]
    inputs: Mapping[int, str]
    """The paths of the user's inputs."""

    def strange(self, value: object) -> bool:
        """True if the value is a tensor with data that the trace did not find."""
        return isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor) and id(value) not in self.tensors


class Parts(TorchFunctionMode):
    """Notes the part of the step for each op, and the place of each call of a PyTorch function."""

    def __init__(
        self, name: str, paths: Mapping[int, str], outermost: CodeType, known: Known, left: StepTensors
    ) -> None:
        """`name` is the step's name, `paths` are the modules' paths by `id`; `outermost` is the code below which the
        user's own code begins."""
        super().__init__()
        self.name, self.paths, self.outermost, self.known, self._left = name, paths, outermost, known, left
        self.inside: list[str] = []
        """The parts that the callers determine, innermost last."""
        self.made: dict[int, tuple[torch.Tensor, Initial]] = {}
        """Tensors that were made without data, by `id`, each with a function that makes it again."""
        self.went_back = False
        """True once a backward pass was run."""
        self.idle = list[str]()
        """The optimizers' steps that find no gradient, in words."""
        self.reached = set[int]()
        """The `id`s of the tensors that get gradients from backward passes."""
        self._modules: list[tuple[str, nn.Module]] = []
        self._thread = threading.get_ident()
        self._stack = ExitStack()

    def __enter__(self) -> Parts:
        super().__enter__()
        stack = self._stack
        stack.enter_context(fx_traceback.preserve_node_meta())
        for handle in (
            _MODULES.register_module_forward_pre_hook(self._into_module),
            _MODULES.register_module_forward_hook(self._out_of_module, always_call=True),
            register_optimizer_step_pre_hook(self._into_step),
            register_optimizer_step_post_hook(self._out_of_step),
        ):
            stack.callback(handle.remove)
        stack.enter_context(lists_one_by_one())
        stack.enter_context(engine_as(self._engine))
        stack.enter_context(first_gradients_as(self._within))
        seeding = self._refusing_seeds(cast(Any, torch).manual_seed)
        for place in (torch, torch.random):
            stack.enter_context(mock.patch.object(place, "manual_seed", seeding))
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()
        cast(Any, super()).__exit__(*error)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name == "__set__":
            self._refuse_set(func, args)
        elif name in _READS and not self._elsewhere():
            self._refuse_reading(name)
        elif name == "requires_grad_" and id(args[0]) in self.known.inputs and all(args[1:]):
            path = self.known.inputs[id(args[0])]
            raise self._refused(
                f"it lets its input {path} require a gradient, which would be kept in the tensor that is given",
                f"Take a tensor of the step's own: {path} = {path}.detach().clone().requires_grad_()",
            )
        elif func == _DATA.__get__:
            func = torch.Tensor.detach
        stack = "".join(lines_inside(self.outermost))
        modules = {str(id(module)): (path, type(module)) for path, module in self._modules}
        with self._at({"stack_trace": stack, "nn_module_stack": modules}):
            known = step_call(func) if self.inside[-1:] == [STEP] else substitute(func)
            made = known(*args, **(kwargs or {}))
            self._note_place(made)
            self._left.note(made, stack)
        return made

    def initial(self, tensor: torch.Tensor) -> Initial | None:
        """Returns the function that makes the tensor again, if the tensor was made without data; else None."""
        known = self.made.get(id(tensor))
        return known[1] if known else None

    def refuse_strange(self, values: Iterable[object]) -> None:
        """Refuses tensors that the trace did not find: a graph can neither read nor change them."""
        for value in values:
            if self.known.strange(value):
                tensor = cast("torch.Tensor", value)
                if transform_at_work():
                    raise self._refused(
                        "it takes gradients by a transform, such as torch.func.grad, inside of which other tensors "
                        "stand for its own",
                        "Take them by torch.autograd.grad(value, x, create_graph=True)",
                    )
                what = "a parameter" if isinstance(tensor, nn.Parameter) else "a tensor"
                raise self._refused(
                    f"it uses {what} of shape {tuple(tensor.shape)} that the trace does not find in the function, as "
                    "one that a loader gives (next(batches)) or that an object of Python hides",
                    "Give it as an input, or let the function close over it, its module or a list of it plainly",
                )

    def _refuse_reading(self, name: str) -> None:
        raise self._refused(
            f"it reads a tensor's data in Python, by Tensor.{name}, which a graph of all later steps cannot have",
            "Compute with PyTorch's functions, or return the tensor, as loss.detach(), and read its numbers from what "
            "j.run returns",
        )

    def _refuse_set(self, func: Any, args: Sequence[Any]) -> None:
        self.refuse_strange(args[:1])
        if func == _DATA.__set__ and not isinstance(args[0], FakeTensor):
            raise self._refused(
                "it gives a tensor other data (p.data = ..., p.data -= ...), which a graph cannot",
                "Change the tensor in place: with torch.no_grad(): p -= ..., or p.copy_(...)",
            )

    def _refusing_seeds(self, seed: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            if self._elsewhere():
                return seed(*args, **kwargs)
            raise self._refused(
                "it calls torch.manual_seed, which happens once at the trace and not in each run",
                "Seed outside of the step: a run draws from PyTorch's own generator",
            )

        return called

    def _refused(self, why: str, advice: str) -> errors.NoTrainingStep:
        return errors.NoTrainingStep(self.name, why, advice, self._place())

    def _place(self) -> str:
        return place_text("".join(lines_inside(self.outermost)))

    @contextlib.contextmanager
    def _at(self, meta: Mapping[str, Any]) -> Generator[None]:
        before = dict(fx_traceback.current_meta)
        fx_traceback.current_meta.update(meta)
        try:
            yield
        finally:
            fx_traceback.current_meta.clear()
            fx_traceback.current_meta.update(before)

    def _elsewhere(self) -> bool:
        """True in another thread, which may train a model of its own meanwhile."""
        return threading.get_ident() != self._thread

    def _into_module(self, module: nn.Module, _: object) -> None:
        if self._elsewhere():
            return
        self._modules.append((self.paths.get(id(module), ""), module))

    def _out_of_module(self, module: nn.Module, _: object, __: object) -> None:
        if not self._elsewhere() and self._modules and self._modules[-1][1] is module:
            self._modules.pop()

    def _into_step(self, optimizer: object, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        if self._elsewhere():
            return
        if any(callable(each) for each in (*args[1:], *kwargs.values())):
            raise self._refused(
                f"{type(optimizer).__name__}.step is given a function that computes the loss again",
                "Call backward() before the step, and step() without a function: SGD, Adam and AdamW need none",
            )
        if id(optimizer) not in self.known.optimizers:
            raise self._refused(
                f"it steps an optimizer ({type(optimizer).__name__}) that the trace does not find in the function, as "
                "one that a scheduler or another object of PyTorch's holds, or that the step itself makes",
                "Let the function close over the optimizer plainly: optimizer.step()",
            )
        wanted = [each for group in cast(Any, optimizer).param_groups for each in group["params"] if each.requires_grad]
        if wanted and all(each.grad is None for each in wanted):
            self.idle.append(
                f"{self.name}: {type(optimizer).__name__}.step() at {self._place()} finds no gradient and changes "
                "nothing. Call it after backward(), with no zero_grad() between them, and make it of the parameters "
                "of the model whose loss this is"
            )
        self.inside.append(STEP)

    def _out_of_step(self, *_: object) -> None:
        if not self._elsewhere():
            self.inside.pop()

    def _within(self, function: Any) -> Any:
        """Returns the function so that its ops count as part of the backward pass."""

        def called(*args: Any, **kwargs: Any) -> Any:
            self.inside.append(BACKWARD)
            try:
                return function(*args, **kwargs)
            finally:
                self.inside.pop()

        return called

    def _engine(self, engine: Any) -> Any:
        """Returns autograd's engine so that the ops of each node get the place of the forward call that made the
        node."""
        run = self._within(engine)

        def called(outputs: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
            if torch.is_anomaly_enabled() and torch.is_anomaly_check_nan_enabled():
                raise self._refused(
                    "torch.autograd.set_detect_anomaly looks at the numbers of each gradient",
                    "Look for anomalies in PyTorch, outside of the trace",
                )
            self.went_back = True
            here: dict[str, Any] = {"stack_trace": "".join(lines_inside(self.outermost)), "nn_module_stack": {}}
            nodes = list(nodes_behind(outputs))
            leaves = [node.variable for node in nodes if hasattr(node, "variable")]
            self.refuse_strange(leaves)
            self.reached |= {id(each) for each in leaves}
            handles = [node.register_prehook(_placing(node.metadata.get(_PLACE, here))) for node in nodes]
            try:
                with self._at(here):
                    return run(outputs, *args, **kwargs)
            finally:
                for handle in handles:
                    handle.remove()

        return called

    def _note_place(self, made: object) -> None:
        """Gives the new nodes of autograd's graph the place of the call that made them."""
        meta = {key: fx_traceback.current_meta.get(key) for key in ("stack_trace", "nn_module_stack")}
        left: list[Any] = [each.grad_fn for each in tensors_in(made)]
        while left:
            node = left.pop()
            if node is None or _PLACE in node.metadata or node.name().endswith("AccumulateGrad"):
                continue
            node.metadata[_PLACE] = meta
            left += [each for each, _ in node.next_functions]


def _placing(meta: Mapping[str, Any]) -> Any:
    def hook(_: object) -> None:
        fx_traceback.current_meta.update(meta)

    return hook


def nodes_behind(results: Iterable[object], before: Iterable[object] = ()) -> Iterator[Any]:
    """Yields the nodes of autograd's graph that made these tensors, each once, up to the nodes in `before`."""
    left, seen = deque[Any](each.grad_fn for each in results if isinstance(each, torch.Tensor)), {None, *before}
    while left:
        node = left.popleft()
        if node not in seen:
            seen.add(node)
            yield node
            left += [each for each, _ in node.next_functions]
