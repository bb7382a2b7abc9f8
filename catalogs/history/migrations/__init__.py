"""Alembic's scripts: how the history's database is made, and brought from one version to the next."""
