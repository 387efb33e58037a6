"""The command line: a thin front door that only uses what `headrace.open` gives to everybody."""
