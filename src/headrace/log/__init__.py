"""Ingest, chunks and sealed epochs: the truth that everything else can be rebuilt from."""
