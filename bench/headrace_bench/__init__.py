"""Measuring Headrace and what people would use instead, on the same files, in one run."""
