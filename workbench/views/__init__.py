"""Records as plain data for reading: tables, text, HTML and the geometry of pictures. Nothing here draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.lazy import submodules

if TYPE_CHECKING:
    from workbench.views import aligned as aligned
    from workbench.views import areas as areas
    from workbench.views import arrays as arrays
    from workbench.views import cards as cards
    from workbench.views import columns as columns
    from workbench.views import compare as compare
    from workbench.views import compare_html as compare_html
    from workbench.views import frame as frame
    from workbench.views import gantt as gantt
    from workbench.views import gaps as gaps
    from workbench.views import graph as graph
    from workbench.views import heat_map as heat_map
    from workbench.views import journey_html as journey_html
    from workbench.views import kernels as kernels
    from workbench.views import letters as letters
    from workbench.views import machines as machines
    from workbench.views import markup as markup
    from workbench.views import module_html as module_html
    from workbench.views import modules as modules
    from workbench.views import moments as moments
    from workbench.views import objects as objects
    from workbench.views import origins as origins
    from workbench.views import overview as overview
    from workbench.views import own as own
    from workbench.views import pass_lines as pass_lines
    from workbench.views import passes as passes
    from workbench.views import perfetto as perfetto
    from workbench.views import pipelines as pipelines
    from workbench.views import placement as placement
    from workbench.views import replay as replay
    from workbench.views import residence as residence
    from workbench.views import roofline as roofline
    from workbench.views import scratchpad as scratchpad
    from workbench.views import searching as searching
    from workbench.views import selecting as selecting
    from workbench.views import selection as selection
    from workbench.views import sources as sources
    from workbench.views import spent as spent
    from workbench.views import stage_html as stage_html
    from workbench.views import style as style
    from workbench.views import svg_arrays as svg_arrays
    from workbench.views import svg_gantt as svg_gantt
    from workbench.views import svg_heat_map as svg_heat_map
    from workbench.views import svg_pipelines as svg_pipelines
    from workbench.views import svg_roofline as svg_roofline
    from workbench.views import svg_scratchpad as svg_scratchpad
    from workbench.views import svg_tiles as svg_tiles
    from workbench.views import table as table
    from workbench.views import tiles as tiles
    from workbench.views import timeline as timeline
    from workbench.views import titles as titles
    from workbench.views import transfers as transfers

__getattr__ = submodules(
    __name__,
    "aligned",
    "areas",
    "arrays",
    "cards",
    "columns",
    "compare",
    "compare_html",
    "frame",
    "gantt",
    "gaps",
    "graph",
    "heat_map",
    "journey_html",
    "kernels",
    "letters",
    "machines",
    "markup",
    "module_html",
    "modules",
    "moments",
    "objects",
    "origins",
    "overview",
    "own",
    "pass_lines",
    "passes",
    "perfetto",
    "pipelines",
    "placement",
    "replay",
    "residence",
    "roofline",
    "scratchpad",
    "searching",
    "selecting",
    "selection",
    "sources",
    "spent",
    "stage_html",
    "style",
    "svg_arrays",
    "svg_gantt",
    "svg_heat_map",
    "svg_pipelines",
    "svg_roofline",
    "svg_scratchpad",
    "svg_tiles",
    "table",
    "tiles",
    "timeline",
    "titles",
    "transfers",
)
