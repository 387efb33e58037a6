"""Decisions about cost: what to combine and what to move; pure functions of statistics."""
