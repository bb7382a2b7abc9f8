"""Launch files: from a plan to what starts exactly that layout.

A plan is read into deployments (what runs, where, at which price); an engine's command line is made for each; a target
writes them down as commands or manifests.
"""
