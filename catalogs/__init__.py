"""What exists: GPUs, rentable nodes, models and priced offers, each fact with its source and date."""
