"""Streams, costs and shifts that are made up from a seed, and drive the optimizer's own code without Spark."""
