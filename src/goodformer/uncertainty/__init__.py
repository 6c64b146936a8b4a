"""Calibrated probabilities, conformal sets and domain scores."""
