"""Query set to shared plan: pure functions over frozen types; no Spark, no clock, no I/O."""
