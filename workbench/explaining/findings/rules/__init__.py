"""The shipped rules: one file a rule, or two rules about one cause. Each file's docstring explains the physics."""

from __future__ import annotations

from workbench.explaining.findings.rules import (
    array_filled_in_part as array_filled_in_part,
)
from workbench.explaining.findings.rules import (
    arrays_at_their_peak as arrays_at_their_peak,
)
from workbench.explaining.findings.rules import (
    barrier_waits as barrier_waits,
)
from workbench.explaining.findings.rules import (
    batch_norms_to_fold as batch_norms_to_fold,
)
from workbench.explaining.findings.rules import (
    bound_by_issue as bound_by_issue,
)
from workbench.explaining.findings.rules import (
    bound_by_memory as bound_by_memory,
)
from workbench.explaining.findings.rules import (
    common_memory_unused as common_memory_unused,
)
from workbench.explaining.findings.rules import (
    computed_twice as computed_twice,
)
from workbench.explaining.findings.rules import (
    host_trips as host_trips,
)
from workbench.explaining.findings.rules import (
    latency_in_the_open as latency_in_the_open,
)
from workbench.explaining.findings.rules import (
    launches as launches,
)
from workbench.explaining.findings.rules import (
    load_imbalance as load_imbalance,
)
from workbench.explaining.findings.rules import (
    mapping_file_unused as mapping_file_unused,
)
from workbench.explaining.findings.rules import (
    mapping_of_ones_own as mapping_of_ones_own,
)
from workbench.explaining.findings.rules import (
    missed_fusions as missed_fusions,
)
from workbench.explaining.findings.rules import (
    moved_again as moved_again,
)
from workbench.explaining.findings.rules import padded_tensors as padded_tensors
from workbench.explaining.findings.rules import padded_work as padded_work
from workbench.explaining.findings.rules import (
    patterns_without_a_match as patterns_without_a_match,
)
from workbench.explaining.findings.rules import (
    rows_opened as rows_opened,
)
from workbench.explaining.findings.rules import (
    scalar_accesses as scalar_accesses,
)
from workbench.explaining.findings.rules import (
    short_transfers as short_transfers,
)
from workbench.explaining.findings.rules import (
    stored_and_never_read as stored_and_never_read,
)
from workbench.explaining.findings.rules import (
    training_mode as training_mode,
)
from workbench.explaining.findings.rules import (
    vector_bound as vector_bound,
)
from workbench.explaining.findings.rules import (
    waits_for_slots as waits_for_slots,
)
from workbench.explaining.findings.rules import (
    weights_in_the_open as weights_in_the_open,
)
from workbench.explaining.findings.rules import (
    wide_numbers as wide_numbers,
)
