"""Records as plain data for reading: tables, text, HTML and the geometry of pictures. Nothing here draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.lazy import modules_of

if TYPE_CHECKING:
    from workbench.views.basics import cards as cards
    from workbench.views.basics import colours as colours
    from workbench.views.basics import data_frames as data_frames
    from workbench.views.basics import markup as markup
    from workbench.views.basics import table as table
    from workbench.views.basics import user_views as user_views
    from workbench.views.comparisons import compare as compare
    from workbench.views.comparisons import compare_html as compare_html
    from workbench.views.comparisons import heat_map as heat_map
    from workbench.views.comparisons import svg_heat_map as svg_heat_map
    from workbench.views.graphs import graph_tables as graph_tables
    from workbench.views.graphs import kernel_groups as kernel_groups
    from workbench.views.graphs import module_html as module_html
    from workbench.views.graphs import module_tree as module_tree
    from workbench.views.graphs import rewrite_tables as rewrite_tables
    from workbench.views.graphs import source_lines as source_lines
    from workbench.views.graphs import spent as spent
    from workbench.views.graphs import titles as titles
    from workbench.views.kernel_lists import chiplet_table as chiplet_table
    from workbench.views.kernel_lists import common_memory_table as common_memory_table
    from workbench.views.kernel_lists import kernel_tables as kernel_tables
    from workbench.views.kernel_lists import pass_lines as pass_lines
    from workbench.views.kernel_lists import pass_tables as pass_tables
    from workbench.views.kernel_lists import storage_tables as storage_tables
    from workbench.views.pages import journey_html as journey_html
    from workbench.views.pages import objects as objects
    from workbench.views.pages import overview as overview
    from workbench.views.pages import stage_html as stage_html
    from workbench.views.scratchpads import launch_replay as launch_replay
    from workbench.views.scratchpads import moments as moments
    from workbench.views.scratchpads import scratchpad as scratchpad
    from workbench.views.scratchpads import svg_scratchpad as svg_scratchpad
    from workbench.views.scratchpads import svg_tiles as svg_tiles
    from workbench.views.scratchpads import tiles as tiles
    from workbench.views.selections import origins as origins
    from workbench.views.selections import selection as selection
    from workbench.views.selections import selection_model as selection_model
    from workbench.views.timelines import aligned as aligned
    from workbench.views.timelines import areas as areas
    from workbench.views.timelines import arrays as arrays
    from workbench.views.timelines import columns as columns
    from workbench.views.timelines import dram_contents as dram_contents
    from workbench.views.timelines import gantt as gantt
    from workbench.views.timelines import gaps as gaps
    from workbench.views.timelines import letters as letters
    from workbench.views.timelines import machine_table as machine_table
    from workbench.views.timelines import perfetto as perfetto
    from workbench.views.timelines import pipelines as pipelines
    from workbench.views.timelines import roofline as roofline
    from workbench.views.timelines import span_search as span_search
    from workbench.views.timelines import svg_arrays as svg_arrays
    from workbench.views.timelines import svg_dram as svg_dram
    from workbench.views.timelines import svg_gantt as svg_gantt
    from workbench.views.timelines import svg_pipelines as svg_pipelines
    from workbench.views.timelines import svg_roofline as svg_roofline
    from workbench.views.timelines import timeline as timeline
    from workbench.views.timelines import training_parts as training_parts
    from workbench.views.timelines import transfers as transfers

__getattr__ = modules_of(
    __name__,
    {
        "basics": ("cards", "colours", "data_frames", "markup", "table", "user_views"),
        "comparisons": ("compare", "compare_html", "heat_map", "svg_heat_map"),
        "graphs": (
            "graph_tables",
            "kernel_groups",
            "module_html",
            "module_tree",
            "rewrite_tables",
            "source_lines",
            "spent",
            "titles",
        ),
        "kernel_lists": (
            "chiplet_table",
            "common_memory_table",
            "kernel_tables",
            "pass_lines",
            "pass_tables",
            "storage_tables",
        ),
        "pages": ("journey_html", "objects", "overview", "stage_html"),
        "scratchpads": ("launch_replay", "moments", "scratchpad", "svg_scratchpad", "svg_tiles", "tiles"),
        "selections": ("origins", "selection", "selection_model"),
        "timelines": (
            "aligned",
            "areas",
            "arrays",
            "columns",
            "dram_contents",
            "gantt",
            "gaps",
            "letters",
            "machine_table",
            "perfetto",
            "pipelines",
            "roofline",
            "span_search",
            "svg_arrays",
            "svg_dram",
            "svg_gantt",
            "svg_pipelines",
            "svg_roofline",
            "timeline",
            "training_parts",
            "transfers",
        ),
    },
)
