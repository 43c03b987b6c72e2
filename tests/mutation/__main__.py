"""`python -m tests.mutation [--count N] [--seed S] [--paths P ...]`: makes N lines wrong, one after the other.

All that is drawn is written down in `results.md`, unless only some paths or groups were asked for. With `--first` only
the tests of `make test` may notice, and nothing is written.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.equivalent import why_not
from tests.mutation.mutate import Mutant, mutants
from tests.mutation.reaching import ROOT
from tests.mutation.running import ALL, BUDGET, Copy, Outcome

WRITTEN = Path(__file__).with_name("results.md")
COUNT = 120
SEED = 23


@dataclass(frozen=True, slots=True)
class Group:
    """Sources that belong together, what part of all mutants are made of them, and the tests that may notice."""

    name: str
    share: float
    sources: tuple[str, ...]
    tests: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    plain: bool = False
    """Whether the simulator runs as plain Python."""

    def paths(self) -> list[str]:
        found = {path.relative_to(ROOT).as_posix() for each in self.sources for path in ROOT.glob(each)}
        return sorted(found - set(self.left_out))


MLIR = (
    "tests/extraction/test_loop_carried.py",
    "tests/extraction/test_extract_fills.py",
    "tests/extraction/test_extract_reshapes.py",
    "tests/extraction/test_lane_layout.py",
    "tests/checking/test_replay_trace.py",
    "tests/checking/test_replay_direct.py",
    "tests/scheduling/test_runs_and_rows.py",
    "tests/mlir/test_scheduled_form.py",
    "tests/extraction/test_array_sharing.py",
    "tests/scheduling/test_core_split.py",
    "tests/scheduling/test_schedule.py",
    "tests/scheduling/test_small_machines.py",
    "tests/formulas/test_index_reads.py",
    "tests/planning/test_common_memory_plan.py",
    "tests/formulas/test_scattering.py",
    "tests/stages/test_spine.py",
    "tests/formulas/test_windows.py",
)
GROUPS = (
    Group(
        "simulator",
        0.35,
        ("simulator/**/*.py",),
        ("tests/simulator", "tests/errors/test_wrong_calls.py"),
        ("simulator/errors.py", "simulator/compiled.py"),  # words, and what plain Python does without
        plain=True,
    ),
    Group(
        "reading off",
        0.2,
        (
            "workbench/scheduling/extraction/extract.py",
            "workbench/scheduling/extraction/evaluate.py",
            "workbench/mlir/instruction_forms.py",
            "workbench/scheduling/extraction/direct_accesses.py",
            "workbench/scheduling/extraction/loop_carried.py",
            "workbench/scheduling/extraction/array_sharing.py",
            "workbench/scheduling/extraction/lane_layout.py",
            "workbench/mlir/indexed_moves.py",
        ),
        MLIR,
    ),
    Group(
        "promotion",
        0.1,
        ("workbench/scheduling/passes/promote.py", "workbench/scheduling/passes/padded_views.py"),
        MLIR,
    ),
    Group(
        "heuristic",
        0.15,
        (
            "workbench/scheduling/heuristic.py",
            "workbench/scheduling/scratchpad_demand.py",
            "workbench/scheduling/loop_order.py",
            "workbench/scheduling/core_split.py",
        ),
        MLIR,
    ),
    Group(
        "comparison",
        0.2,
        ("workbench/checking/tensor_comparison.py", "workbench/checking/rounding_allowance.py"),
        (
            "tests/checking/test_tensor_comparison.py",
            "tests/checking/test_checking.py",
            "tests/wrong_results/test_sample.py",
        ),
    ),
)


def sample(group: Group, count: int, seed: int) -> list[Mutant]:
    """So many lines of a group, drawn by a seed, and one mistake in each."""
    drawn = random.Random(f"{group.name} {seed}")
    by_line: dict[tuple[str, int], list[Mutant]] = {}
    for path in group.paths():
        for mutant in mutants(path, (ROOT / path).read_text()):
            by_line.setdefault((path, mutant.line), []).append(mutant)
    lines = sorted(drawn.sample(sorted(by_line), min(count, len(by_line))))
    return [drawn.choice(by_line[line]) for line in lines]


def of_group(group: Group, count: int, seed: int, paths: Sequence[str], folder: Path, first: bool) -> list[Outcome]:
    """Runs the mutants of a group and reports each outcome. In a kept folder none is run again."""
    chosen = [each for each in sample(group, count, seed) if not paths or each.path in paths]
    if not chosen:
        return []
    tree, outcomes = Copy(folder, group.plain, first), list[Outcome]()
    reached = tree.measure(group.tests)
    kept = folder / "outcomes.json"
    known = json.loads(kept.read_text()) if kept.exists() else {}
    for mutant in chosen:
        killed = hashlib.sha256(mutant.text.encode()).hexdigest()
        budgets = [BUDGET] if why_not(mutant) else [BUDGET, ALL]
        survived = killed + tree.digest(mutant, reached, budgets)
        before = known.get(killed, known.get(survived))
        outcome = Outcome(mutant, *before) if before else tree.run(mutant, reached, budgets)
        known[killed if outcome.killed else survived] = [outcome.killed_by, outcome.tests, outcome.seconds]
        kept.write_text(json.dumps(known))
        outcomes.append(outcome)
        fate = outcome.killed_by or why_not(mutant) or "SURVIVED"
        print(f"{mutant}\n  {outcome.seconds:.0f} s, {outcome.tests} tests: {fate}", flush=True)
    return outcomes


def table(found: dict[str, list[Outcome]]) -> str:
    lines = ["| sources | mutants | killed | of them by hanging | survived | of them equivalent | score |"]
    lines.append("|---|---:|---:|---:|---:|---:|---:|")
    for name, outcomes in (found | {"all": _all(found)}).items():
        killed = [each for each in outcomes if each.killed]
        hanging = sum(each.killed_by == "hangs" for each in killed)
        equivalent = sum(bool(why_not(each.mutant)) for each in outcomes if not each.killed)
        score = f"{len(killed) / max(len(outcomes) - equivalent, 1):.1%}"
        cells = [name, len(outcomes), len(killed), hanging, len(outcomes) - len(killed), equivalent, score]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def _all(found: dict[str, list[Outcome]]) -> list[Outcome]:
    return [each for outcomes in found.values() for each in outcomes]


def survivors(found: dict[str, list[Outcome]]) -> str:
    """Every mutant that no test noticed, with the reason why it need not be, if there is one."""
    lines = list[str]()
    for each in [each for each in _all(found) if not each.killed]:
        lines.append(f"* `{each.mutant.path}:{each.mutant.line}`, {each.mutant.rule}")
        lines += [f"  * `{each.mutant.before}`", f"  * `{each.mutant.after}`"]
        lines.append(f"  * {why_not(each.mutant) or '**a hole**'}")
    return "\n".join(lines or ["None."]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--count", type=int, default=COUNT, help="lines to make wrong in all")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--paths", nargs="*", default=[], help="only those of the sample that lie in these files")
    parser.add_argument("--groups", nargs="*", default=[each.name for each in GROUPS])
    parser.add_argument("--folder", type=Path, help="kept, and with it what was measured")
    parser.add_argument("--first", action="store_true", help="only the tests of `make test` may notice")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        found: dict[str, list[Outcome]] = {}
        for group in GROUPS:
            if group.name in given.groups:
                count = round(group.share * given.count)
                found[group.name] = of_group(group, count, given.seed, given.paths, folder, given.first)
    print(table(found))
    print(survivors(found))
    if not given.paths and not given.first and len(found) == len(GROUPS):
        WRITTEN.write_text(
            "# Our own sources made wrong\n\nWritten by `make mutation`; what is done is said in "
            f"`tests/mutation/__init__.py`. {given.count} lines were drawn with the seed {given.seed}. The score is "
            "the part of the mutants that are not equivalent and were killed.\n\n"
            + table(found)
            + "\n## Survivors\n\n"
            + survivors(found)
        )
    return int(any(not each.killed and not why_not(each.mutant) for each in _all(found)))


if __name__ == "__main__":
    sys.exit(main())
