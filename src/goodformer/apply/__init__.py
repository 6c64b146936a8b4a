"""A user's own graphs and molecules, from file to file: split, fit, predict, explain."""
