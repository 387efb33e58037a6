"""Result tables, the views of queries on them, and the audit that compares them with plain Spark."""
