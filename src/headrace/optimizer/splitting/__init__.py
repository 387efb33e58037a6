"""How to split a stream over many operators: what each process costs, how many splitters, how large a window."""
