"""Streams, queries, changelogs and slots: what exists, durably."""
