"""What `shardwise import` is asked beside the command: where the server runs, and the traffic it meets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from optimizer.errors import QuestionError
from optimizer.export.served import ServedLayout
from optimizer.export.served_price import Hardware
from optimizer.fields import Name, Part, whole
from optimizer.flags import read_flags, read_question
from optimizer.scenario import Scenario


class WhereFlags(Part):
    """Where a server runs."""

    gpu: Name | None = None
    provider: Name | None = None
    region: Name | None = None
    instance_type: Name | None = None
    term: Name | None = None
    nodes: Annotated[int, whole(1, 100_000)] | None = None
    replicas: Annotated[int, whole(1, 100_000)] | None = None


def hardware_of(values: Mapping[str, Any]) -> Hardware | None:
    """Return where a server runs; None where nothing is said.

    Raises:
        QuestionError: a value is wrong, or hardware is described without its GPU type.
    """
    flags = read_flags(WhereFlags, values)
    given = flags.model_dump(exclude_none=True)
    if not given:
        return None
    if flags.gpu is None:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise QuestionError(f"{named}: hardware needs its GPU type as well; give --gpu")
    return Hardware(**given)


def question_of(file: str | None, served: ServedLayout, flags: Mapping[str, Any]) -> Scenario | None:
    """Return the traffic and targets of a file with flags applied, or of flags alone; None where none are given.

    Raises:
        QuestionError: a value is wrong, or the file is about another model.
    """
    given = {name: value for name, value in flags.items() if value not in (None, [], ())}
    if file is None:
        return read_question(served.catalog_model, given) if given.keys() - {"as_of", "offers_file"} else None
    if not file.lower().endswith((".yaml", ".yml")):
        raise QuestionError(f"--scenario {file}: expected a scenario file, which ends in .yaml or .yml")
    scenario = read_question(file, given)
    if scenario.model.lower() != served.catalog_model.lower():
        raise QuestionError(
            f"--scenario {file} is about {scenario.model}, and the command serves {served.model}; "
            "where that is the same model, give --model " + scenario.model
        )
    return scenario
