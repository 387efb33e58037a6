"""Queries as Spark SQL text again, over the streams and over their log, and whether Spark reads both alike."""
