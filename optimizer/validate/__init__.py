"""Predictions against what engines did."""
