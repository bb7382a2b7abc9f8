"""The MCP server: lists tools and answers calls, over standard input and output."""

from __future__ import annotations

from typing import Any

import anyio
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
)

from optimizer.mcp_server.said import said
from optimizer.mcp_server.tools import kinds_by_tool, tools
from optimizer.questions.kinds import build_question
from optimizer.questions.no_answer import Fault, NoAnswer
from optimizer.questions.refusal import Refusal
from optimizer.questions.workers import Workers, WorkerSettings
from optimizer.version import __version__

INSTRUCTIONS = (
    "Sizes and prices GPU deployments of language models: which nodes to rent and how to run a model on them, at the "
    "least cost, proved. Begin with `solve`; `fit` and `predict` judge a layout that you name; `explain` and the "
    "whatif tools say why and what would change the answer. Names of GPUs and models come from the catalog tools. "
    "Prices are dated: say their age to whoever decides. A status of infeasible is an answer, "
    "with its reasons, and not an error."
)


def create_server(workers: Workers) -> Server[Any]:
    """Return the server whose tools are answered by these workers."""

    async def list_tools(_: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=list(tools()))

    async def call_tool(_: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        return await answer_call(workers, params.name, params.arguments or {})

    return Server(
        "shardwise",
        version=__version__,
        title="Shardwise",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def answer_call(workers: Workers, name: str, arguments: dict[str, Any]) -> CallToolResult:
    """Answer a call of a tool; what is wrong with its arguments is a result that says so, for the agent to mend.

    Raises:
        MCPError: there is no such tool.
    """
    kind = kinds_by_tool().get(name)
    if kind is None:
        known = ", ".join(kinds_by_tool())
        raise MCPError(INVALID_PARAMS, f"there is no tool {name[:80]!r}; expected one of {known}")
    try:
        found = await workers.run(build_question(kind.question, arguments))
    except Refusal as error:
        return _failed(f"The arguments of {name} are wrong:\n{error}")
    except NoAnswer as error:
        return _failed(
            "Something broke; standard error of the server says what." if isinstance(error, Fault) else str(error)
        )
    return CallToolResult(
        content=[TextContent(type="text", text=said(found))], structured_content=found.model_dump(mode="json")
    )


def _failed(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)


def serve(settings: WorkerSettings | None = None) -> None:
    """Serve over standard input and output until the client closes it.

    Raises:
        QuestionError: a package is missing.
    """
    anyio.run(_serve, settings)


async def _serve(settings: WorkerSettings | None) -> None:
    workers = Workers(settings)
    server = create_server(workers)
    async with stdio_server() as (read, write):
        # Only now: what the processes inherit as standard output is no longer the client's.
        workers.start()
        try:
            await server.run(read, write, server.create_initialization_options())
        finally:
            with anyio.CancelScope(shield=True):
                await workers.stop(0.5)
