"""`shardwise mcp` through the client of the mcp package, over real standard streams."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import anyio
import jsonschema
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, Tool

from optimizer.mcp_server.said import said
from optimizer.mcp_server.tools import kinds_by_tool, tools
from optimizer.questions.kinds import answer, build_question
from tests.optimizer.command import run_without
from tests.optimizer.web.service import LONG, MODEL, SMALL, changed

Result = TypeVar("Result")


class Session:
    """A client that is connected to `shardwise mcp`."""

    def __init__(self, portal: BlockingPortal, client: Client):
        self._portal, self._client = portal, client

    def run(self, do: Callable[[Client], Awaitable[Result]]) -> Result:
        """Do something with the client."""
        return self._portal.call(do, self._client)

    def call(self, name: str, **arguments: Any) -> CallToolResult:
        """Call a tool."""
        return self.run(lambda client: client.call_tool(name, arguments))


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    parameters = StdioServerParameters(
        command=sys.executable, args=["-m", "optimizer.cli", "mcp", "--workers", "1"], env=dict(os.environ)
    )
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Client(stdio_client(parameters))) as client,
    ):
        yield Session(portal, client)


def text(result: CallToolResult) -> str:
    return "\n".join(part.text for part in result.content)  # type: ignore[union-attr]


def test_every_kind_of_question_is_a_tool_that_only_reads(session: Session) -> None:
    found = session.run(lambda client: client.list_tools()).tools

    assert {tool.name for tool in found} == set(kinds_by_tool())
    assert {"solve", "fit", "predict", "explain", "export", "whatif_budget", "prices", "catalog_gpus"} <= set(
        kinds_by_tool()
    )
    for tool in found:
        assert tool.description
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint


@pytest.mark.parametrize("tool", tools(), ids=lambda tool: tool.name)
def test_the_schemas_of_a_tool_are_schemas_of_objects_without_loose_ends(tool: Tool) -> None:
    for schema in (tool.input_schema, tool.output_schema or {}):
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        named = {part.split('"')[0] for part in json.dumps(schema).split('"#/$defs/')[1:]}
        assert named <= set(schema.get("$defs", {}))


def test_what_the_tools_say_of_themselves_leaves_an_agent_room_to_think() -> None:
    # About four bytes a token: what most clients show an agent is some ten thousand tokens.
    assert sum(len(json.dumps(tool.input_schema)) + len(tool.description or "") for tool in tools()) < 60_000


def test_a_solve_is_the_same_plan_as_elsewhere_with_a_summary(session: Session) -> None:
    found = session.call("solve", scenario=SMALL)

    plan = answer(build_question(kinds_by_tool()["solve"].question, {"scenario": SMALL})).model_dump(mode="json")
    assert not found.is_error
    assert {**found.structured_content, "solver": None} == {**plan, "solver": None}
    assert text(found).startswith(f"Optimal: {plan['summary']}.")
    assert f"${plan['cost']['usd_per_hour']:,.2f}/hour" in text(found)
    assert "days old" in text(found)


def test_that_nothing_is_feasible_is_an_answer_and_says_what_would_do(session: Session) -> None:
    found = session.call("solve", scenario=changed(SMALL, targets={"ttft_ms": 0.001}))

    assert not found.is_error
    assert found.structured_content["status"] == "infeasible"
    assert "- ttft:" in text(found)
    assert "It would do: TTFT" in text(found)


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("solve", {"scenario": changed(SMALL, model="../../etc/passwd")}, "scenario.model: expected a model's name"),
        ("solve", {"scenario": changed(SMALL, model="no/such")}, "scenario.model: Unknown model 'no/such'"),
        ("solve", {"scenario": changed(SMALL, prices={"offers_files": "/etc/passwd"})}, "are not opened"),
        ("solve", {}, "scenario: is missing"),
        ("solve", {"scenario": "chat"}, "scenario"),
        ("fit", {"model": MODEL, "gpu": "H1000"}, "Did you mean H100"),
        ("fit", {"model": MODEL, "gpu": "L4-24GB", "colour": "red"}, "colour: is not a field"),
        ("predict", {"model": MODEL, "gpu": "L4-24GB", "concurrency": 0}, "input_tokens: is missing"),
        ("whatif_shock", {"scenario": SMALL, "price": ["A100"]}, "expected PATTERN=+40%"),
        ("explain", {}, "either a scenario or a plan"),
        ("export", {"scenario": SMALL, "to": "cobol"}, "to: expected 'vllm'"),
    ],
)
def test_wrong_arguments_are_answered_in_words(
    name: str, arguments: dict[str, Any], words: str, session: Session
) -> None:
    found = session.call(name, **arguments)

    assert found.is_error
    assert found.structured_content is None
    assert words in text(found)


def test_a_tool_that_is_not_there_is_an_error_of_the_protocol(session: Session) -> None:
    with pytest.raises(MCPError, match="there is no tool"):
        session.call("rm")


@pytest.mark.parametrize("name", [name for name, kind in kinds_by_tool().items() if name != "prices_diff"])
def test_the_answer_to_each_example_is_said_in_some_lines(name: str) -> None:
    examples = kinds_by_tool()[name].question.model_json_schema().get("examples", [{}])
    example = {**examples[0], **({"scenario": SMALL} if "scenario" in examples[0] else {})}
    example |= {"price": ["A100*=+40%"]} if "price" in example else {}
    example |= {"offer": "A100-SXM-80GB"} if "offer" in example else {}

    words = said(answer(build_question(kinds_by_tool()[name].question, example)))

    assert words.strip()
    assert "None" not in words


def test_a_call_that_is_given_up_frees_the_process(session: Session) -> None:
    async def give_up(client: Client) -> None:
        with anyio.move_on_after(1.0):
            await client.call_tool("solve", {"scenario": LONG})

    session.run(give_up)

    assert session.call("fit", model=MODEL, gpu="L4-24GB").structured_content["fits"]


def test_nothing_but_the_protocol_is_on_standard_output_also_where_a_solver_writes() -> None:
    start = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    classes = [{"input_tokens": 500, "output_tokens": 100, "request_rate": 2}]
    fleet = {**{name: SMALL[name] for name in ("model", "limits", "prices")}, "classes": classes}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": start},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "solve", "arguments": {"scenario": fleet}},
        },
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "optimizer.cli", "mcp", "--workers", "1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None

    with process:
        process.stdin.write("".join(f"{json.dumps(message)}\n" for message in messages))
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.stdin.close()
        rest = process.stdout.read()
        assert process.wait(20) == 0

    assert [one["id"] for one in answers] == [1, 2]
    assert answers[1]["result"]["structuredContent"]["status"] == "optimal"
    assert rest == ""


@pytest.mark.parametrize("missing", ["mcp.server", "pebble"])
def test_a_package_that_is_missing_is_named_with_what_installs_it(missing: str) -> None:
    ran = run_without(missing, "mcp")

    assert (ran.code, ran.out) == (2, "")
    assert 'pip install "shardwise[mcp]"' in ran.err
