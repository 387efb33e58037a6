"""Compiled kernels: the loops over tuples that depend on the data, where numpy would go over them once per query."""
