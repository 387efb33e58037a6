"""Text as it was written: tokens, grammar, literals, names."""
