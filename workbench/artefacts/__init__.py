"""The artefacts of the stages: thin handles over records, with the same few properties.

Every handle has `.record` (the data itself, for programs), `.table` (a DataFrame), `.text()` and `.html()` (for
reading), and shows itself in a notebook. Properties of one stage alone stand beside them, in that stage's file.
"""

from __future__ import annotations

from workbench.artefacts.captured import Captured as Captured
from workbench.artefacts.lowered import Lowered as Lowered
from workbench.artefacts.moment_handle import Moment as Moment
from workbench.artefacts.pictures import drawing as drawing
from workbench.artefacts.pictures import drawing_of_comparisons as drawing_of_comparisons
from workbench.artefacts.pictures import drawing_of_heat_maps as drawing_of_heat_maps
from workbench.artefacts.rendered import Rendered as Rendered
from workbench.artefacts.scheduled import Scheduled as Scheduled
from workbench.artefacts.scratchpad_handle import Scratchpad as Scratchpad
from workbench.artefacts.scratchpad_handle import naming_tensors as naming_tensors
from workbench.artefacts.simulated import Simulated as Simulated
from workbench.artefacts.tiles_handle import Tiles as Tiles
