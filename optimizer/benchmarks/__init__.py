"""Benchmark files as runs: what each tool measured and what it says of the server, in one shape.

read.py tells formats apart; each of the others reads one. A reader takes a file at its word and refuses values that
cannot be; what the file does not say (mostly the hardware) stays None.
"""
