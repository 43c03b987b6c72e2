"""Our own sources made wrong on purpose, a line at a time: some test must fail. `make mutation` tries a sample.

A line is drawn, and one of the usual mistakes is made in it: `<` for `<=`, `-` for `+`, a number one too large, a
condition the other way round, a call left out. The change is made in a copy of the tree, never in the tree itself. Each
is run against tests that call the function it is in, the quickest first; which do is measured once, in the same copy.
A change that no test notices is a hole in the tests, unless it changes nothing that anybody may rely on: of those,
`equivalent.py` says why.
"""
