"""What a text means: aggregations, joins, sessions, projections, each with its predicates and windows."""
