"""Splits that hold out whole domains, and the distance between their parts."""
