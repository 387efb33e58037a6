"""What people ask for, read and carried out: streams, queries, rows and statements."""
