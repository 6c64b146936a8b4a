"""The user's own graphs and molecules, from file to file: fit, predict, explain."""
