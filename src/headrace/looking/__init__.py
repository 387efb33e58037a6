"""What people see of a session: lists, states, plans, rows and reasons."""
