"""A model that is not bundled is read from the Hugging Face Hub, once, before the command answers."""

from __future__ import annotations

import sys
from collections.abc import Callable

# The weights of text models match their config to a few percent; what is further off was stored otherwise.
_SIZE_TOLERANCE = 0.10


def with_models(command: Callable[[], object]) -> None:
    """Run a command; where it names a model that nothing here knows, read that from the Hub and run it anew.

    Whatever file, flag or plan the name stood in: the part that answers never reaches the network by itself, it says
    which model it lacks, before it has printed anything.

    Raises:
        QuestionError: the Hub has no such model either, or it cannot be read.
    """
    from catalogs.errors import UnknownNameError  # noqa: PLC0415

    tried: set[str] = set()
    while True:
        try:
            command()
            return
        except UnknownNameError as unknown:
            from catalogs.pulled_models import is_hub_id  # noqa: PLC0415

            name = unknown.name.strip()
            if unknown.kind != "model" or name in tried or not is_hub_id(name):
                raise
            tried.add(name)
            _pull(name, unknown)


def _pull(name: str, unknown: Exception) -> None:
    from fetchers.errors import FetchError  # noqa: PLC0415
    from fetchers.hub import pull_model  # noqa: PLC0415
    from optimizer.errors import QuestionError  # noqa: PLC0415

    try:
        pulled = pull_model(name)
    except FetchError as error:
        raise QuestionError(f"{unknown}\nHugging Face Hub: {error}") from None
    size = pulled.safetensors_bytes
    said = "" if size is None else f", {size / 1e9:,.1f} GB of safetensors"
    revision = pulled.revision[:12]
    sys.stderr.write(
        f"shardwise: read {name} from the Hugging Face Hub (revision {revision}{said}); kept in {pulled.path}\n"
    )
    expected = pulled.spec.weight_bytes()
    if size is not None and abs(size / expected - 1) > _SIZE_TOLERANCE:
        sys.stderr.write(
            f"shardwise: by its config.json the weights would take {expected / 1e9:,.1f} GB; parts beside the text "
            "model, or another precision, make the difference: check --weights\n"
        )
