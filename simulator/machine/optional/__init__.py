"""The half of the description of optional hardware that a machine needs to be made."""
