"""Linear Road: variable tolls on expressways, with generator, history, operator and a validator that trusts nobody."""
