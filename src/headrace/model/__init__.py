"""The frozen types that every other package speaks; no Spark, no I/O, no clock."""
