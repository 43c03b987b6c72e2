"""Journey files as somebody might craft them: each opens and shows everything, or is one told error.

python -m tests.crafted N [--seed SEED]     or     make crafted N=2000
"""
