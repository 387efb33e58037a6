"""Runs a plan for an epoch on Spark: jobs, segments, commit, recovery."""
