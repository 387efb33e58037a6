"""Sharing groups in simulation: thousands of queries, the real controller, and a table of what came of it."""
