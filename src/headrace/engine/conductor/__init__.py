"""Lets the engine obey the grouping controller: what it measured becomes a situation, a decision becomes moves."""
