"""Half as many bytes: the remedy for what moves or multiplies floats of 32 bits or more."""

from __future__ import annotations

from workbench.findings.finding_record import Remedy
from workbench.findings.run_facts import Facts, KernelFacts
from workbench.findings.source_changes import BFLOAT16, call_of

_WIDE = ("f32", "f64")
_OF_MODULES = "model.bfloat16(), with inputs of torch.bfloat16, if its numbers suffice"
_OF_FUNCTIONS = "inputs of torch.bfloat16, if its numbers suffice"


def narrower(facts: Facts, kernel: KernelFacts) -> Remedy | None:
    """The same in bfloat16; none for a training step, whose optimizer needs its digits, nor for a loaded journey."""
    captured = facts.lowered.captured
    moved = [value for launch in kernel.launches for value in launch.arguments if value in facts.lowered.types]
    wide = any(facts.lowered.types[value].dtype in _WIDE for value in moved)
    if not wide or facts.module_at is None or any(node.origin.part for node in captured.nodes):
        return None
    written = _OF_MODULES if facts.module_at("") is not None else _OF_FUNCTIONS
    return Remedy(call_of(BFLOAT16, written), change=BFLOAT16)


def weights_share(facts: Facts, value: str) -> str:
    """Says for a weight that more inputs at a time would share its bytes."""
    base = next((view.base for view in facts.lowered.views if view.value == value), value)
    kinds = {each.value: each.kind for each in facts.lowered.captured.inputs}
    if kinds.get(base, "user") == "user":
        return ""
    return "; a larger batch shares the weights among more inputs"
