"""A user's own benchmarks: kept, judged, and fitted as a calibration on top of the bundled coefficients."""
