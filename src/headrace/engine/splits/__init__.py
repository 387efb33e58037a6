"""Splits at run time: operators of the user's own, one instance per sub-stream, run beside the sharing groups."""
