"""Optional hardware: a folder for each, the description that hangs it on the simulator, and the table of all."""
