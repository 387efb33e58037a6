"""Shared session windows: micro-sessions on the map side, merging with open sessions on the reduce side."""
