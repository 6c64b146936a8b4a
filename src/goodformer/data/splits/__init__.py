"""Splits that hold out whole domains, and how far their parts lie apart."""
