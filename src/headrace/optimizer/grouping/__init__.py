"""Which queries share one plan, and with how many tasks, such that no query is slower than alone (FunShare)."""
