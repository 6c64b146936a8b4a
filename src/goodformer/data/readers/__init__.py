"""Readers of files and of columns."""
