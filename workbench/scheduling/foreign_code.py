"""Lists of the passes, script ops and kernel dialects that a file may use: all of them only change kernels.

A file may come from anybody, and MLIR has passes and ops that write files, load libraries and run code that a text
names. So the lists name what is allowed; anything else in MLIR, now or in a later version, is refused. Passes and
scripts of the session itself are not checked, and neither is a trusted journey (`trust=True`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from workbench.ground.environment.registered import PASSES
from workbench.ground.errors import MlirSyntaxError, NotTrusted
from workbench.ir import KernelModule
from workbench.mlir.context import operations, parse
from workbench.mlir.user_text import check_text
from workbench.scheduling.passes.attach_script import AttachScript, script_module
from workbench.scheduling.passes.our_passes import OUR_PASSES
from workbench.scheduling.passes.wanted_passes import UserPasses, checked_passes

UPSTREAM: Final = frozenset({
    "canonicalize", "cse", "sccp", "loop-invariant-code-motion", "loop-invariant-subset-hoisting", "control-flow-sink",
    "remove-dead-values", "symbol-dce", "topological-sort", "affine-simplify-structures", "affine-loop-normalize",
    "linalg-fold-unit-extent-dims", "linalg-fuse-elementwise-ops", "linalg-generalize-named-ops",
    "linalg-specialize-generic-ops", "linalg-inline-scalar-operands", "linalg-fold-into-elementwise",
    "linalg-block-pack-matmul", "linalg-detensorize", "convert-elementwise-to-linalg", "simplify-depthwise-conv",
    "eliminate-empty-tensors", "empty-tensor-to-alloc-tensor", "fold-tensor-subset-ops", "one-shot-bufferize",
    "buffer-hoisting", "buffer-loop-hoisting", "drop-equivalent-buffer-results", "promote-buffers-to-stack",
    "fold-memref-alias-ops", "normalize-memrefs", "scf-for-loop-canonicalization", "scf-for-loop-peeling",
    "scf-for-loop-range-folding", "scf-for-loop-specialization", "arith-expand", "arith-int-range-opts",
    "int-range-optimizations", "math-uplift-to-fma", "strip-debuginfo",
})  # fmt: skip
"""MLIR's passes that only read and change the kernel."""

OURS: Final = frozenset(OUR_PASSES) - {AttachScript.name}
"""The workbench's own passes, except the one that attaches any script to a kernel."""

_AROUND: Final = frozenset({"builtin.module", "func.func", "any"})
"""Ops in which pipelines may be nested."""

_OPTIONS: Final = re.compile(
    r"(?:[a-z][a-z-]*=(?:true|false|-?\d{1,9}|identity-layout-map|fully-dynamic-layout-map)\s*)*"
)
"""Allowed options of MLIR's passes and of passes that a session registers. No free text: it could name a file."""

_ITEM: Final = re.compile(r"\s*([A-Za-z][\w.-]*)\s*(?:\{([^{}()]*)\})?\s*")

TRANSFORM: Final = frozenset({
    f"transform.{name}" for name in (
        "named_sequence", "sequence", "yield", "annotate", "cast", "alternatives", "foreach", "select", "verify",
        "merge_handles", "split_handle", "replicate", "num_associations", "param.constant",
        "get_consumers_of_result", "get_defining_op", "get_operand", "get_parent_op", "get_producer_of_operand",
        "get_result", "get_type", "apply_cse", "apply_dce", "apply_licm", "apply_patterns",
        "apply_patterns.canonicalization", "apply_patterns.scf.for_loop_canonicalization",
        *(f"apply_patterns.linalg.{name}" for name in (
            "data_layout_propagation", "decompose_pack_unpack", "decompose_pad", "erase_unnecessary_inputs",
            "extract_slice_sinking", "fold_add_into_dest", "fold_pack_unpack_into_empty",
            "fold_unit_extent_dims_via_reshapes", "fold_unit_extent_dims_via_slices", "tiling_canonicalization",
        )),
        *(f"apply_patterns.memref.{name}" for name in (
            "expand_ops", "expand_strided_metadata", "extract_address_computations", "fold_memref_alias_ops",
            "resolve_ranked_shaped_type_result_dims",
        )),
        *(f"apply_patterns.tensor.{name}" for name in (
            "bubble_up_extract_slice", "decompose_concat", "drop_redundant_insert_slice_rank_expansion",
            "fold_into_pack_and_unpack", "fold_tensor_empty", "fold_tensor_subset_ops",
            "merge_consecutive_insert_extract_slice", "reassociative_reshape_folding", "rewrite_as_constant",
        )),
        "bufferization.eliminate_empty_tensors", "bufferization.empty_tensor_to_alloc_tensor",
        *(f"loop.{name}" for name in (
            "coalesce", "forall_to_for", "fuse_sibling", "hoist_loop_invariant_subsets", "peel", "pipeline",
            "promote_if_one_iteration", "unroll", "unroll_and_jam",
        )),
        *(f"structured.{name}" for name in (
            "match", "fuse", "fuse_into_containing_op", "tile_using_for", "tile_using_forall", "split",
            "split_reduction", "tile_reduction_using_for", "tile_reduction_using_forall", "continuous_tile_sizes",
            "multitile_sizes", "generalize", "specialize", "interchange", "scalarize", "decompose",
            "decompose_interface", "decompose_winograd_op", "winograd_conv2d", "transpose_conv2d", "transpose_matmul",
            "convert_conv2d_to_img2col", "flatten_elementwise", "eliminate_empty_tensors", "hoist_pad", "pad",
            "pad_tiling_interface", "pack", "pack_greedily", "pack_transpose", "lower_pack", "lower_unpack",
            "convert_to_loops", "insert_slice_to_copy", "rewrite_in_destination_passing_style",
        )),
    )
})  # fmt: skip
"""Ops of a script that find, tile, fuse, move and rewrite ops of the kernel. None runs a pass, prints, calls another
sequence, replaces an op by text or lowers to LLVM."""

DIALECTS: Final = frozenset({
    "arith", "math", "index", "complex", "linalg", "tensor", "memref", "scf", "affine", "bufferization", "tosa", "ub",
})  # fmt: skip
"""Dialects whose ops a kernel's text may contain."""

OTHERS: Final = frozenset({"builtin.module", "func.func", "func.return", "cf.assert"})
"""Allowed ops of other dialects in kernels."""


def check(
    path: str,
    scripts: Mapping[str, str] | None,
    passes: UserPasses | None,
    rendered: Sequence[KernelModule],
) -> None:
    """Raises `NotTrusted` if a file's scripts, passes or kernels contain anything that is not on the lists."""
    refused = [*_of_passes(checked_passes(passes))]
    for kernel, script in (scripts or {}).items():
        refused += [f"{what} in the script of {kernel!r:.60}" for what in _of_script(str(script))]
    for module in rendered:
        refused += [f"{what} in the text of {module.kernel!r:.60}" for what in _of_text(module.located)]
    if refused:
        raise NotTrusted(path, refused)


def _of_passes(passes: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for step, pipelines in passes.items():
        for pipeline in pipelines:
            for what in refused_in_pipeline(pipeline):
                yield f"{what} after the step {step!r:.60}"


def refused_in_pipeline(pipeline: str) -> list[str]:
    """The passes of a pipeline that a file may not name, and the options that it may not give, in words."""
    refused, at, depth, expects = list[str](), 0, 0, True
    while at < len(pipeline):
        letter = pipeline[at]
        if expects:
            item = _ITEM.match(pipeline, at)
            if item is None:
                return [*refused, f"the pipeline {pipeline!r:.60}, which is no plain list of passes,"]
            at, expects = item.end(), False
            if pipeline[at : at + 1] == "(":
                refused += _mistake(item[1], item[2], _AROUND, nested=True)
                at, depth, expects = at + 1, depth + 1, True
            else:
                refused += _mistake(item[1], item[2], frozenset())
        elif letter == ",":
            at, expects = at + 1, True
        elif letter == ")" and depth:
            at, depth = at + 1, depth - 1
        elif letter.isspace():
            at += 1
        else:
            return [*refused, f"the pipeline {pipeline!r:.60}, which is no plain list of passes,"]
    return refused


def _mistake(name: str, options: str | None, around: frozenset[str], *, nested: bool = False) -> list[str]:
    """The refused pass, op around passes, or options, in words; empty if a file may name them."""
    if nested:
        return [] if name in around and not options else [f"the pass {name!r:.60}"]
    if name in OURS:
        return []  # our passes parse their options as numbers and names of dims
    if name not in UPSTREAM and name not in PASSES:
        return [f"the pass {name!r:.60}"]
    if options and not _OPTIONS.fullmatch(options.strip()):
        return [f"the options {options!r:.60} of the pass {name!r:.60}"]
    return []


@lru_cache(256)
def _of_script(script: str) -> tuple[str, ...]:
    """Lists the ops of a script that a file may not use."""
    return _refused(script_module(script), lambda name: name in TRANSFORM or name == "builtin.module")


@lru_cache(4096)
def _of_text(text: str) -> tuple[str, ...]:
    """Lists the ops of a kernel's text that a file may not use."""
    return _refused(text, lambda name: name in OTHERS or name.partition(".")[0] in DIALECTS)


def _refused(text: str, allowed: Callable[[str], bool]) -> tuple[str, ...]:
    """The ops of a text that are not allowed. A text that this context cannot parse is refused as a whole, since
    another context may parse it."""
    try:
        check_text(text, "a file")
        module = parse(text)
    except MlirSyntaxError as error:
        return (f"what cannot be read ({error.problems[0].message:.80})",)
    names = dict.fromkeys(op.name for op in operations(module.operation))
    return tuple(f"the op {name!r:.60}" for name in names if not allowed(name))
