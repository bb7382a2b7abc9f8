"""Predictions against what engines did: a file of reports, each row predicted, compared and summarized.

cases        reading the file and what its cells say (engine, GPU, formats)
models       from a name in a report to a model, or why not
hardware     does the format run on the GPU under this engine of this time
predict      one row: weights, KV tokens, concurrency, fits, and the rule that decides
score        errors by column
outcome      the whole file: validate_file, write_predictions
report       the summary as tables
"""

from optimizer.validate.outcome import Validation, validate_file, write_predictions
from optimizer.validate.report import print_validation

__all__ = ["Validation", "print_validation", "validate_file", "write_predictions"]
