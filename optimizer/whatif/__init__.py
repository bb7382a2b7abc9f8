"""What if: budgets, sweeps, break-evens, price shocks, fronts. Each asks the solver again; nothing is extrapolated."""
