"""Measurements and pictures for the documentation; scripts that use the package and are not part of it."""
