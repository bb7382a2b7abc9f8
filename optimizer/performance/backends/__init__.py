"""Speed backends: where the seconds of a decode step and of a prefill come from.

Everything above (latencies under load, capacity, answers, the simulator) asks the one interface in `protocol`:

protocol        SpeedBackend, what the house asks of a speed model, and Asked, which one a user wants
grid            positive figures on a grid of two axes, interpolated in logarithms, and monotone
tabled          a backend that answers from tables where they cover, and from another backend for the rest
measured        tables that a user measured (CSV)
aiconfigurator  tables of NVIDIA's aiconfigurator: the only file that knows of it, and optional
choose          from what a user wants to a backend; what covered how many candidates, and why not the rest

The roofline is `optimizer.performance.speed.SpeedModel`.
"""
