"""JSON schemas: every field says what it means, and editors that use them accept what `solve` accepts."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest
import yaml
from pydantic import BaseModel

from optimizer.commands.schema import SCHEMAS
from optimizer.described import SAME_EVERYWHERE, Described, about, descriptions
from tests.optimizer.command import run

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))


def models_in(kind: Any, found: dict[type[BaseModel], None]) -> None:
    """Collect a model and all that its fields are made of."""
    if isinstance(kind, type) and issubclass(kind, BaseModel) and kind not in found:
        kind.model_rebuild()
        found[kind] = None
        for field in kind.model_fields.values():
            models_in(field.annotation, found)
    for part in get_args(kind):
        models_in(part, found)


def of(name: str) -> Any:
    module, kind = SCHEMAS[name]
    return getattr(import_module(module), kind)


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_field_says_what_it_means(name: str) -> None:
    found: dict[type[BaseModel], None] = {}
    models_in(of(name), found)
    for kind in found:
        assert issubclass(kind, Described)
        said = descriptions(kind)
        assert set(said) == set(kind.model_fields), f"{kind.__name__}: its docstring's Attributes lack a field"
        assert all(text.endswith(".") and len(text) > 4 for text in said.values())


def properties(schema: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    parts = [schema, *schema.get("$defs", {}).values()]
    return [(name, one) for part in parts for name, one in part.get("properties", {}).items()]


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_that_is_printed_describes_every_property(name: str) -> None:
    schema = run("schema", name).json
    jsonschema.Draft202012Validator.check_schema(schema)
    assert properties(schema)
    assert [field for field, one in properties(schema) if not one.get("description")] == []
    assert "Attributes:" not in json.dumps(schema)


def test_descriptions_are_those_of_the_docstrings() -> None:
    class Base(Described):
        """A base.

        Attributes:
            first, second: what both are, over
                two lines.
            third: this; fourth: that; and more of that.
        """

        first: int
        second: int
        third: int
        fourth: int

    class Part(Base):
        """A part: in one line.

        Attributes:
            second: its own: with a colon.

        Raises:
            ValueError: never.
        """

        gpu: str

    assert about(Part) == "A part: in one line."
    assert descriptions(Part) == {
        "first": "What both are, over two lines.",
        "second": "Its own: with a colon.",
        "third": "This.",
        "fourth": "That; and more of that.",
        "gpu": "GPU type, as in `shardwise catalog gpus`.",
    }
    assert Part.model_json_schema()["properties"]["second"]["description"] == "Its own: with a colon."
    assert Part.model_json_schema()["description"] == "A part: in one line."


def test_what_a_type_accepts_is_said_beside_what_the_field_means() -> None:
    headroom = of("scenario").model_json_schema()["$defs"]["Memory"]["properties"]["headroom"]
    assert headroom["description"].endswith(" A share from 0 to 0.95 (15% is 0.15).")
    assert headroom["description"].startswith("Shares used by the framework policy. ")


def test_no_shared_description_is_left_without_a_field() -> None:
    found: dict[type[BaseModel], None] = {}
    for name in SCHEMAS:
        models_in(of(name), found)
    assert set(SAME_EVERYWHERE) <= {field for kind in found for field in kind.model_fields}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_editor_with_the_schema_accepts_each_example(path: Path) -> None:
    fields = json.loads(json.dumps(yaml.safe_load(path.read_text(encoding="utf-8")), default=str))
    schema = of("fleet-scenario" if path.stem.startswith("fleet") else "scenario").model_json_schema()
    problems = jsonschema.Draft202012Validator(schema).iter_errors(fields)
    assert [f"{list(one.path)}: {one.message}" for one in problems] == []


@pytest.mark.parametrize(
    "fields",
    [
        {"workload": {"input_tokens": 1, "output_tokens": 1}, "modell": "a"},
        {"model": "a", "workload": {"input_tokens": "many", "output_tokens": 1}},
        {"model": "a", "workload": {"input_tokens": 1, "output_tokens": 1}, "limits": {"tp": "x"}},
    ],
)
def test_an_editor_marks_what_would_be_refused(fields: dict[str, Any]) -> None:
    assert list(jsonschema.Draft202012Validator(of("scenario").model_json_schema()).iter_errors(fields))
