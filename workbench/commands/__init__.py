"""What a terminal runs: `workbench trace`, `lab`, `open`, `doctor` and the others, and the worker process."""
