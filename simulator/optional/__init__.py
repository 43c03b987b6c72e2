"""Optional hardware: a folder for each kind, with a description of its hooks, and the table of all kinds."""
