"""The commands of a terminal: `workbench trace`, `lab`, `open`, `doctor` and the others, and the worker process."""
