"""Seeded generators of streams and of the ad-hoc queries people would ask of them; no Spark."""
