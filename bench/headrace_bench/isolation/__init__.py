"""FunShare's workloads with the engine itself: what each policy of sharing costs, and how every query fares."""
