"""Headrace: thousands of continuous SQL queries over the same streams as a few shared Spark jobs."""

__version__ = "0.1.0"
