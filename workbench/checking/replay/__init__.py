"""A tile program replayed in numpy, in the order of its trace: does that order make the right numbers?"""
