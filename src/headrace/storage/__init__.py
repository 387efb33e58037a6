"""Where bytes live: the warehouse directory, its records and marks, checksums, the lock, scripted faults, the clock."""
