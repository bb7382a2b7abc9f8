"""The constraint programs: the only place that imports OR-Tools."""
