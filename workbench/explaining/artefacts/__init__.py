"""The artefacts of the stages: thin handles over records, with the same few properties.

Every handle has `.record` (the data itself, for programs), `.table` (a DataFrame), `.text()` and `.html()` (for
reading), and shows itself in a notebook. The properties of a single stage are in that stage's file.
"""

from __future__ import annotations

from workbench.explaining.artefacts.captured import Captured as Captured
from workbench.explaining.artefacts.lowered import Lowered as Lowered
from workbench.explaining.artefacts.pictures import drawing as drawing
from workbench.explaining.artefacts.rendered import Rendered as Rendered
from workbench.explaining.artefacts.scheduled import Scheduled as Scheduled
from workbench.explaining.artefacts.scratchpad_views import Moment as Moment
from workbench.explaining.artefacts.scratchpad_views import Scratchpad as Scratchpad
from workbench.explaining.artefacts.scratchpad_views import Tiles as Tiles
from workbench.explaining.artefacts.scratchpad_views import naming_tensors as naming_tensors
from workbench.explaining.artefacts.simulated import Simulated as Simulated
