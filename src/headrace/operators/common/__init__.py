"""What all operators stand on: columns as numbers, keys, regions of predicates and cells, bundles of arrays."""
