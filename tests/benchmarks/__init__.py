"""Measured speed and growth: `make benchmark`, or `python -m tests.benchmarks`."""
