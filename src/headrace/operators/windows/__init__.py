"""Shared windowed aggregation in the order a tuple meets it: tuples, folding or matches, slices, lanes, grid, lower."""
