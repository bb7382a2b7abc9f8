"""Reads keys of an untrusted model config within bounds, and remembers every problem, not only the first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from catalogs.errors import CatalogError

MAX_LAYERS: Final = 1_000
MAX_HIDDEN: Final = 131_072
MAX_WIDTH: Final = 1_048_576
MAX_HEADS: Final = 4_096
MAX_HEAD_DIM: Final = 16_384
MAX_EXPERTS: Final = 8_192
MAX_VOCAB: Final = 5_000_000
MAX_CONTEXT: Final = 1_000_000_000
MAX_TOTAL_PARAMETERS: Final = 20_000_000_000_000

BY_HAND_KEY: Final = "shardwise_model"
HAND_HINT: Final = (
    "To give the facts by hand, pass a JSON or YAML file with one key `shardwise_model` "
    "(hidden_size, vocab_size, max_context_tokens, layers as runs; see catalogs/model_by_hand.py)."
)

_REQUIRED: Final = object()


class ModelConfigError(CatalogError):
    """A config that cannot be read as a model; carries every problem found."""

    def __init__(self, model: str, problems: Sequence[str]):
        self.model = model
        self.problems = tuple(problems)
        listed = "\n".join(f"  - {problem}" for problem in self.problems[:20])
        super().__init__(f"{model}: not a model config that can be read:\n{listed}")


class ConfigReader:
    """A config under reading. A bad value is noted and replaced by the smallest legal one, so that reading goes on.

    Text facts of a multimodal wrapper (`text_config`, `llm_config`, `language_config`) are laid over the outer keys.
    """

    def __init__(self, config: Mapping[str, Any], model: str):
        self.model = model
        self.outer = config
        self.values: dict[str, Any] = {**config, **_text_config(config)}
        self._missing: list[str] = []
        self._problems: list[str] = []

    def has(self, key: str) -> bool:
        """Whether the key is there and not null."""
        return self.values.get(key) is not None

    def problem(self, text: str) -> None:
        """Note a problem."""
        if text not in self._problems:
            self._problems.append(text)

    def integer(self, *keys: str, high: int, low: int = 1, default: Any = _REQUIRED) -> int:
        """The first of `keys` that is present, as an integer between `low` and `high`; `default` when none is."""
        key = next((key for key in keys if self.has(key)), None)
        if key is None:
            return self._absent(keys, low) if default is _REQUIRED else int(default)
        return self.bounded(key, self.values[key], low, high)

    def bounded(self, key: str, value: Any, low: int, high: int) -> int:
        """`value` when it is a whole number between `low` and `high`; otherwise note the problem and return `low`."""
        whole = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value) and value.is_integer())
        if isinstance(value, bool) or not whole:
            self.problem(f"{key} is {shown(value)}; expected a whole number from {low} to {high}")
            return low
        if not low <= value <= high:
            self.problem(f"{key} is {shown(value)}; expected {low} to {high}")
            return low
        return int(value)

    def number(self, key: str, value: Any, low: float, high: float) -> float:
        """`value` when it is a finite number between `low` and `high`; otherwise note the problem and return `low`."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            self.problem(f"{key} is {shown(value)}; expected a number from {low} to {high}")
            return low
        return float(value)

    def flag(self, key: str, *, default: bool) -> bool:
        """The key as true or false; `default` when absent."""
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.problem(f"{key} is {shown(value)}; expected true or false")
            return default
        return value

    def text(self, key: str, default: str = "") -> str:
        """The key as a string; `default` when absent."""
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, str):
            self.problem(f"{key} is {shown(value)}; expected a string")
            return default
        return value

    def mapping(self, key: str) -> Mapping[str, Any]:
        """The key as a mapping; empty when absent."""
        value = self.values.get(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.problem(f"{key} is {shown(value)}; expected an object")
            return {}
        return value

    def sequence(self, key: str, length: int | None = None, *, longer: bool = False) -> list[Any] | None:
        """The key as a list of `length` entries (`longer`: or more, the rest dropped); None when absent or wrong."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            self.problem(f"{key} is {shown(value)}; expected a list")
            return None
        if length is not None and (len(value) < length or (len(value) > length and not longer)):
            self.problem(f"{key} has {len(value)} entries; expected one for each of {length} layers")
            return None
        return list(value) if length is None else list(value[:length])

    def check(self, holds: bool, text: str) -> None:
        """Note `text` unless `holds`."""
        if not holds:
            self.problem(text)

    def finish(self) -> None:
        """Raise when anything was wrong.

        Raises:
            ModelConfigError: names the missing keys and every bad value, and says how to give the facts by hand.
        """
        if not self._missing and not self._problems:
            return
        missing = [f"missing keys: {', '.join(self._missing)}"] if self._missing else []
        raise ModelConfigError(self.model, [*missing, *self._problems, HAND_HINT])

    def _absent(self, keys: tuple[str, ...], low: int) -> int:
        wanted = " or ".join(keys)
        if wanted not in self._missing:
            self._missing.append(wanted)
        return low


def _text_config(config: Mapping[str, Any]) -> dict[str, Any]:
    for key in ("text_config", "llm_config", "language_config"):
        inner = config.get(key)
        if isinstance(inner, Mapping):
            return {name: value for name, value in inner.items() if value is not None or name not in config}
    return {}


def shown(value: Any) -> str:
    """A short printable form of any decoded value (Python refuses to print integers of thousands of digits)."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**30:
        return "an integer of more than 30 digits"
    if isinstance(value, Mapping | list | tuple):
        return f"a {'list' if isinstance(value, list | tuple) else 'mapping'} of {len(value)} entries"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
