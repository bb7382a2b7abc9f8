"""Commands in each target's words: placeholders are filled in where nodes join up, and nowhere else."""

from __future__ import annotations

import pytest

from optimizer.errors import QuestionError
from optimizer.export.deployment import Process
from optimizer.export.words import doubled_dollars, filled, serving_on, shell_command
from tests.optimizer.export.deployments import deployment, launch, replica

WORDS = {"LEADER_ADDRESS": "<leader>", "NODE_RANK": "<rank>"}


def test_placeholders_inside_arguments_become_the_targets_words() -> None:
    process = Process("worker", ("ray", "--address=$LEADER_ADDRESS:6379", "$NODE_RANK", "$NODE_RANKS", "$PATH"))
    assert filled(process, WORDS, doubled_dollars) == [
        "ray",
        "--address=<leader>:6379",
        "<rank>",
        "$$NODE_RANKS",
        "$$PATH",
    ]


def test_a_server_on_its_own_node_has_no_placeholders() -> None:
    process = Process("server", ("vllm", "serve", "$LEADER_ADDRESS"))
    assert filled(process, WORDS, doubled_dollars) == ["vllm", "serve", "$$LEADER_ADDRESS"]


def test_a_shell_command_has_a_flag_a_line() -> None:
    process = Process("leader", ("vllm", "serve", "it's", "--empty", "", "-x", "--at", "$LEADER_ADDRESS:1"))
    assert shell_command(process) == (
        "vllm serve 'it'\"'\"'s' \\\n  --empty '' \\\n  -x \\\n  --at \"$LEADER_ADDRESS\":1"
    )


def test_the_module_or_script_of_an_interpreter_stays_beside_it() -> None:
    assert (
        shell_command(Process("server", ("python3", "-m", "sglang", "--tp", "8"))) == "python3 -m sglang \\\n  --tp 8"
    )
    assert shell_command(Process("server", ("bash", "-c", "a && b"))) == "bash -c 'a && b'"


@pytest.mark.parametrize(
    "command",
    [("vllm", "serve", "m", "--port", "{}", "--tp", "1"), ("bash", "-c", "printf x && exec serve --port {} --tp 1")],
)
def test_a_replica_beside_another_serves_on_a_port_of_its_own(command: tuple[str, ...]) -> None:
    process = Process("server", tuple(word.format(8000) for word in command), "/health")
    moved = serving_on(process, deployment(), 8001)
    assert moved == Process("server", tuple(word.format(8001) for word in command), "/health")


def test_a_command_without_a_port_cannot_be_moved() -> None:
    process = Process("server", ("serve",), "/health")
    asked = deployment(launch=launch(replica(), processes=(process,)))
    assert serving_on(process, asked, 8000) is process
    with pytest.raises(QuestionError, match="names no --port 8000 to change to 8001"):
        serving_on(process, asked, 8001)
