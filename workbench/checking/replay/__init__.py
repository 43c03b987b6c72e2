"""A tile program executed by numpy, in the order of its trace."""
