"""What a text refers to: relations, columns, functions, and what cannot be part of a continuous query."""
