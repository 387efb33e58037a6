"""What groups, moves, backfill and partitionings cost, against the aims that were set for them."""
