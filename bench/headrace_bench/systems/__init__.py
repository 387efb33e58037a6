"""The systems that are measured: each reads the files put into a folder and writes every query's rows."""
