"""Whatever a model is called, what runs in the end is called with exactly that, whichever target wrote it down.

Each file is read as its target reads it (read_back.py); shell scripts are run, with a program in vllm's place that says
what it was called with.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from optimizer.export.deployment import Deployment, LaunchFile
from optimizer.export.targets import launch_files
from tests.optimizer.export.deployments import deployment, launch, nodes, replica
from tests.optimizer.export.read_back import (
    LEADER,
    Argv,
    as_compose_reads,
    as_kubernetes_reads,
    cloud_init_file,
    compose_commands,
    dstack_script,
    helm_command,
    kubernetes_commands,
    shell_commands,
    terraform_groups,
)

# No argument holds a NUL; one that begins with a dash is a flag, which models and names are not let be.
ANY = st.text(st.characters(codec="utf-8", exclude_characters="\0\1"), min_size=1, max_size=30)
NASTY = st.sampled_from(
    (
        *("it's", '"x"', "a: b", "a #b", "a\nb", " a ", "\\", "\u2028", "é", "a;b", "a&&b", "`id`"),
        *("$X", "${X}", "$(X)", "$$", "${{ run.args }}", "{{ .Values }}", "@HF_TOKEN@", "%a"),
        *("on", "no", "1e3", "007", "~", "{a: 1}", "[a]", "&a", "*a", "!a", "@a"),
    )
)
HOSTILE = st.one_of(NASTY, ANY, st.tuples(NASTY, ANY).map("".join)).filter(lambda text: not text.startswith("-"))
drawn = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def named(model: str, name: str, where: str, **changes: int) -> Deployment:
    return deployment(
        "chat",
        replica(model=model, served_name=name, **changes),
        nodes=nodes(provider=where, region=where, instance_type=where),
        context=(f"a plan for {model} at {where}",),
    )


def only(files: tuple[LaunchFile, ...]) -> str:
    (file,) = files
    return file.text


def run_on(asked: Deployment, role: str, rank: str) -> Argv:
    """Return what a process has to be called with, the leader's address and its rank filled in."""
    (process,) = [each for each in asked.launch.processes if each.role == role]
    words = {"$LEADER_ADDRESS": LEADER, "$NODE_RANK": rank}
    return tuple(words.get(word, word) for word in process.command)


@drawn
@given(HOSTILE, HOSTILE, HOSTILE)
@example("$LEADER_ADDRESS", "$NODE_RANK", "aws")
def test_one_node(tmp_path: Path, model: str, name: str, where: str) -> None:
    asked = named(model, name, where)
    command = asked.launch.processes[0].command
    assert compose_commands(only(launch_files("docker-compose", (asked,)))) == {"chat-0": command}
    manifest = next(yaml.safe_load_all(only(launch_files("kubernetes", (asked,)))))
    assert kubernetes_commands(manifest["spec"]["template"]["spec"]) == command
    task = yaml.safe_load(only(launch_files("skypilot", (asked,))))
    assert shell_commands(task["run"], tmp_path) == [command]
    _, service = launch_files("dstack", (asked,))
    assert yaml.safe_load(service.text)["model"] == name
    assert shell_commands(dstack_script(service.text), tmp_path, shell="sh") == [command]
    user_data = terraform_groups(launch_files("terraform-vars", (asked,))[0].text)["chat"]["user_data"]["server"]
    assert compose_commands(cloud_init_file(user_data, "compose.yaml")) == {"chat-0": command}


@drawn
@given(HOSTILE, HOSTILE)
def test_the_chart_calls_vllm_with_the_same_flags(model: str, name: str) -> None:
    values = yaml.safe_load(only(launch_files("helm-values", (named(model, name, "aws"),))))
    command = helm_command(values, values["servingEngineSpec"]["modelSpec"][0])
    assert command == (
        *("vllm", "serve", model, "--host", "0.0.0.0", "--port", "8000", "--enable-prefix-caching"),
        *("--max-model-len", "8192", "--tensor-parallel-size", "8", "--max-num-seqs", "64"),
        *("--gpu-memory-utilization", "0.9", "--served-model-name", name),
        *("--kv-cache-dtype", "fp8_e4m3", "--enable-expert-parallel"),
    )


@drawn
@given(HOSTILE.filter(lambda text: "$LEADER_ADDRESS" not in text and "$NODE_RANK" not in text))
def test_several_nodes(tmp_path: Path, model: str) -> None:
    asked = named(model, model, "aws", pp=2, nodes=2)
    leader, worker = run_on(asked, "leader", "0"), run_on(asked, "worker", "1")
    first, second = launch_files("docker-compose", (asked,))
    variables = {"LEADER_ADDRESS": LEADER}
    assert compose_commands(first.text, variables) == {"chat-0": leader}
    assert compose_commands(second.text, variables) == {"chat-0": worker}
    manifest = next(yaml.safe_load_all(only(launch_files("kubernetes", (asked,)))))
    groups = manifest["spec"]["leaderWorkerTemplate"]
    assert kubernetes_commands(groups["leaderTemplate"]["spec"], {"NODE_RANK": "0"}) == leader
    assert kubernetes_commands(groups["workerTemplate"]["spec"], {"NODE_RANK": "1"}) == worker
    sky = yaml.safe_load(only(launch_files("skypilot", (asked,))))["run"]
    dstack = dstack_script(launch_files("dstack", (asked,))[1].text)
    for rank, command in (("0", leader), ("1", worker)):
        said = {"SKYPILOT_NODE_IPS": f"{LEADER}\n10.0.0.2", "SKYPILOT_NODE_RANK": rank}
        assert shell_commands(sky, tmp_path, **said) == [command]
        said = {"DSTACK_MASTER_NODE_IP": LEADER, "DSTACK_NODE_RANK": rank}
        assert shell_commands(dstack, tmp_path, shell="sh", **said) == [command]


@drawn
@given(HOSTILE.filter(lambda text: len(text.splitlines()) == 1))
def test_variables(tmp_path: Path, value: str) -> None:
    asked = deployment(launch=launch(replica(), environment=(("SAID_ALOUD", value),)))
    (service,) = yaml.safe_load(only(launch_files("docker-compose", (asked,))))["services"].values()
    assert as_compose_reads(service["environment"]["SAID_ALOUD"]) == value
    manifest = next(yaml.safe_load_all(only(launch_files("kubernetes", (asked,)))))
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    values = yaml.safe_load(only(launch_files("helm-values", (asked,))))["servingEngineSpec"]["modelSpec"][0]
    for env in (container["env"], values["env"]):
        assert [as_kubernetes_reads(each["value"]) for each in env if each["name"] == "SAID_ALOUD"] == [value]
    assert yaml.safe_load(only(launch_files("skypilot", (asked,))))["envs"] == {"SAID_ALOUD": value}
    assert yaml.safe_load(launch_files("dstack", (asked,))[1].text)["env"][0] == f"SAID_ALOUD={value}"


@pytest.mark.parametrize("where", ["us east\n- x", "x: y", "a/b", "é"])
def test_a_region_that_is_no_name_is_in_no_field(where: str) -> None:
    asked = deployment(nodes=nodes(region=where))
    manifest = next(yaml.safe_load_all(only(launch_files("kubernetes", (asked,)))))
    selector = manifest["spec"]["template"]["spec"]["nodeSelector"]
    assert selector == {"node.kubernetes.io/instance-type": "p5.48xlarge"}
    assert yaml.safe_load(only(launch_files("skypilot", (asked,))))["resources"]["infra"] == "aws"
    assert "regions" not in yaml.safe_load(launch_files("dstack", (asked,))[0].text)
