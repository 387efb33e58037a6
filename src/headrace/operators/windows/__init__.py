"""Shared windowed aggregation, in the order a tuple meets it: tuples, folding, slices and lanes, grid, lower."""
