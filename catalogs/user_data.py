"""Where the user's own data lies: a folder, and the price history's database in it or elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER_VARIABLE = "SHARDWISE_DATA_DIR"
DATABASE_VARIABLE = "SHARDWISE_DATABASE_URL"
HISTORY_FILE = "prices.sqlite"


def user_data_folder() -> Path:
    """Return the folder of the user's own data: SHARDWISE_DATA_DIR, or the platform's; it need not exist."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    from platformdirs import user_data_path  # noqa: PLC0415  asked for only where the variable is not set

    return user_data_path("shardwise", appauthor=False)


def user_has_history() -> bool:
    """Say whether the user keeps a price history: a database is named, or its file is there. Opens nothing."""
    return bool(os.environ.get(DATABASE_VARIABLE)) or (user_data_folder() / HISTORY_FILE).exists()
