"""The part of the description of optional hardware that is needed to make a machine."""
