"""The index of bundled models: name -> file, so that listing names or loading one model does not read them all.

Run `python -m catalogs.model_index` after adding a file to data/models; a test compares the two.
"""

from __future__ import annotations

import json
from pathlib import Path

FOLDER = Path(__file__).parent / "data" / "models"
INDEX = FOLDER / "index.json"


def build_index(folder: Path = FOLDER) -> dict[str, str]:
    """Every name and twin in the folder's files with the file that holds it, sorted by name.

    Raises:
        ValueError: two files claim one name.
    """
    names: dict[str, str] = {}
    for file in sorted(path for path in folder.glob("*.json") if path.name != INDEX.name):
        entry = json.loads(file.read_text(encoding="utf-8"))
        for name in (entry["name"], *entry["also"]):
            if names.setdefault(name, file.name) != file.name:
                raise ValueError(f"{name} is in {names[name]} and in {file.name}")
    return dict(sorted(names.items(), key=lambda item: item[0].lower()))


def main() -> None:
    """Write the index."""
    INDEX.write_text(json.dumps(build_index(), indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
