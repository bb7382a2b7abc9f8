"""Fleets: several models and classes of traffic on mixed hardware, over a day or a week, as one purchase."""
