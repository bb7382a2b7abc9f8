"""Seconds: how fast a replica prefills and decodes, how its GPUs talk, and how requests wait."""
