"""Compiled kernels: loops over tuples that numpy cannot express without going over the tuples once per query.

The rule: a kernel is compiled when its loop depends on the data (walk the set bits of a word, merge runs), and stays
numpy where numpy runs at the speed of memory. Every kernel has a plain reference in `tests/operators`, which is its
oracle and no second product. `docs/decisions/0024-compiled-kernels.md` says what was weighed.
"""
