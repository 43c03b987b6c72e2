"""What optional hardware makes of a machine: the half of its description that a machine needs to be made."""
