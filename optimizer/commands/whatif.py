"""`shardwise whatif ...`: the questions that begin with "what if", a file each."""

from __future__ import annotations

import typer

whatif_app = typer.Typer(help="What if the budget, prices or traffic were different.", no_args_is_help=True)
