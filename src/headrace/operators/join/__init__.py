"""Shared joins: tuples are kept once with their query-sets and meet on their keys; products join nothing at all."""
