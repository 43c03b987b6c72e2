"""Recurrent cells, and whole recurrent layers, written out step by step."""

from __future__ import annotations

from collections.abc import Callable

from workbench.ir import Ref
from workbench.operators.formulas.formula_builder import Builder, Formula
from workbench.operators.formulas.matrix_products import linear

State = tuple[Ref, ...]
Step = Callable[[Builder, Ref, State, Ref, "Ref | None"], State]
"""Returns the next state, from the input's part of the gates, the state, and the weights and bias of the state."""


def _chunks(b: Builder, gates: Ref, count: int) -> list[Ref]:
    width = b.type(gates).shape[-1] // count
    return [b("aten.slice.Tensor", gates, b.rank(gates) - 1, at * width, (at + 1) * width) for at in range(count)]


def _lstm_step(b: Builder, given: Ref, state: State, weight: Ref, bias: Ref | None) -> State:
    gates = b("aten.add.Tensor", linear(b, state[0], weight, bias), given)
    opened, kept, new, shown = _chunks(b, gates, 4)
    taken = b("aten.mul.Tensor", b("aten.sigmoid.default", opened), b("aten.tanh.default", new))
    cell = b("aten.add.Tensor", b("aten.mul.Tensor", b("aten.sigmoid.default", kept), state[1]), taken)
    return b("aten.mul.Tensor", b("aten.sigmoid.default", shown), b("aten.tanh.default", cell)), cell


def _gru_step(b: Builder, given: Ref, state: State, weight: Ref, bias: Ref | None) -> State:
    (hidden,) = state
    from_input, from_state = _chunks(b, given, 3), _chunks(b, linear(b, hidden, weight, bias), 3)
    reset, update = (
        b("aten.sigmoid.default", b("aten.add.Tensor", x, h))
        for x, h in zip(from_input[:2], from_state[:2], strict=True)
    )
    new = b("aten.tanh.default", b("aten.add.Tensor", from_input[2], b("aten.mul.Tensor", reset, from_state[2])))
    apart = b("aten.sub.Tensor", hidden, new)
    return (b("aten.add.Tensor", new, b("aten.mul.Tensor", update, apart)),)


def _plain_step(activation: str) -> Step:
    def step(b: Builder, given: Ref, state: State, weight: Ref, bias: Ref | None) -> State:
        return (b(activation, b("aten.add.Tensor", linear(b, state[0], weight, bias), given)),)

    return step


def cell(step: Step) -> Formula:
    """The formula of a cell, whose state is one tensor or several."""

    def formula(
        b: Builder, x: Ref, hx: Ref | list[Ref], w_ih: Ref, w_hh: Ref, b_ih: Ref | None = None, b_hh: Ref | None = None
    ) -> Ref | State:
        state = (hx,) if isinstance(hx, Ref) else tuple(hx)
        found = step(b, linear(b, x, w_ih, b_ih), state, w_hh, b_hh)
        return found[0] if isinstance(hx, Ref) else found

    return formula


def layers(step: Step, parts: int) -> Formula:
    """The formula of one or more recurrent layers, with `parts` tensors of state; None with dropout in training."""

    def formula(
        b: Builder, x: Ref, hx: Ref | list[Ref], weights: list[Ref], has_biases: bool, num_layers: int,
        dropout: float, train: bool, bidirectional: bool, batch_first: bool,
    ) -> tuple[Ref, ...] | None:  # fmt: skip
        if (dropout and train) or len(weights) != (4 if has_biases else 2) * num_layers * (1 + bidirectional):
            return None
        states = hx if isinstance(hx, list) else [hx]
        left = iter(weights)
        time = 1 if batch_first else 0
        final: list[State] = []
        for layer in range(num_layers):
            ways: list[Ref] = []
            for way in range(1 + bidirectional):
                w_ih, w_hh = next(left), next(left)
                b_ih, b_hh = (next(left), next(left)) if has_biases else (None, None)
                place = layer * (1 + bidirectional) + way
                state = tuple(b("aten.select.int", each, 0, place) for each in states)
                given = linear(b, x, w_ih, b_ih)
                steps = range(b.type(x).shape[time])
                outs: list[Ref] = []
                for at in reversed(steps) if way else steps:
                    state = step(b, b("aten.select.int", given, time, at), state, w_hh, b_hh)
                    outs.append(state[0])
                ways.append(b("aten.stack.default", outs[::-1] if way else outs, time))
                final.append(state)
            x = b("aten.cat.default", ways, 2) if bidirectional else ways[0]
        ends = (b("aten.stack.default", [state[part] for state in final], 0) for part in range(parts))
        return (x, *ends)

    return formula


_TANH, _RELU = _plain_step("aten.tanh.default"), _plain_step("aten.relu.default")

FORMULAS: dict[str, Formula] = {
    "aten.lstm_cell.default": cell(_lstm_step),
    "aten.gru_cell.default": cell(_gru_step),
    "aten.rnn_tanh_cell.default": cell(_TANH),
    "aten.rnn_relu_cell.default": cell(_RELU),
    "aten.lstm.input": layers(_lstm_step, 2),
    "aten.gru.input": layers(_gru_step, 1),
    "aten.rnn_tanh.input": layers(_TANH, 1),
    "aten.rnn_relu.input": layers(_RELU, 1),
}
