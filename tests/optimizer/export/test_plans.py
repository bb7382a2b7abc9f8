"""Plans read into deployments: the replica, the GPUs of each, the offers to fall back to."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from catalogs.offers import load_offers
from optimizer.errors import QuestionError
from optimizer.export.deployment import Deployment, Nodes
from optimizer.export.fallbacks import fallbacks, market_of
from optimizer.export.options import ExportOptions
from optimizer.export.plans import deployments, read_plan_of
from optimizer.export.replicas import label_of, longest_request
from optimizer.plan import Plan
from optimizer.scenario import load_scenario
from optimizer.solve import solve
from tests.optimizer.catalogs import MEDIUM, catalog, offer, question
from tests.optimizer.export.flags import parsed

EXAMPLES = Path(__file__).parents[3] / "examples"


@cache
def plan_of(example: str) -> Plan:
    """The answer to an example, without its reasons."""
    return solve(load_scenario(EXAMPLES / f"{example}.yaml"), reasons=False)


def one_of(plan: Plan, **options: Any) -> Deployment:
    """The deployment of a plan of one layout; each of its commands is held against its engine's flags."""
    (found,) = deployments(plan, ExportOptions(**options))
    for process in found.launch.processes:
        parsed(process.command, found.launch.engine, found.launch.version)
    return found


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
@pytest.mark.parametrize(
    "example",
    [
        *("deepseek-v3", "llama-2-13b-int4-small-gpu", "llama-3.1-405b-two-nodes", "llama-3.1-70b-chat"),
        *("llama-3.1-70b-offline", "spheron-h200-or-a100-interactive", "spheron-h200-or-a100-offline"),
    ],
)
def test_commands_say_the_layout_of_each_example(example: str, engine: str) -> None:
    """GPUs, stages, the longest request and the requests at once are those of the plan."""
    plan = plan_of(example)
    layout, memory = plan.layout, plan.memory
    assert layout is not None and memory is not None  # noqa: PT018
    found = one_of(plan, engine=engine)
    said = parsed(found.launch.processes[0].command, engine, found.launch.version)
    ranks = layout.attention_dp
    tp, pp, longest = {
        "vllm": ("--tensor-parallel-size", "--pipeline-parallel-size", "--max-model-len"),
        "sglang": ("--tp-size", "--pp-size", "--context-length"),
        "trtllm": ("--tp_size", "--pp_size", "--max_seq_len"),
    }[engine]
    assert said[tp] == str(layout.tp if engine == "vllm" else layout.tp * ranks)
    assert said.get(pp, "1") == str(layout.pp)
    assert said[longest] == str(memory.context_tokens)
    requests = {"vllm": "--max-num-seqs", "sglang": "--max-running-requests", "trtllm": "--max_batch_size"}[engine]
    each = -(-layout.concurrency_per_replica // ranks)
    assert said[requests] == str(each * ranks if engine == "sglang" else each)
    assert found.replicas == layout.replicas
    assert found.replica.gpus * found.replicas == layout.gpus_used
    assert (found.nodes.count, found.nodes.gpu) == (layout.nodes, layout.gpu)
    placed = [gpu for at in found.placements for _ in range(at.units) for gpu in at.gpu_indices]
    assert sum(map(len, placed)) * layout.nodes_per_replica == layout.gpus_used


def test_two_nodes_run_one_replica() -> None:
    """405B in BF16: eight GPUs of each node, stages at the boundary, a leader and a worker."""
    found = one_of(plan_of("llama-3.1-405b-two-nodes"))
    assert [process.role for process in found.launch.processes] == ["leader", "worker"]
    assert (found.replica.nodes, found.replica.gpus_on_each_node, found.replica.pp) == (2, 8, 2)
    assert found.placements[0].gpu_indices == (tuple(range(8)),)


def test_replicas_that_share_a_node_have_gpus_and_ports_of_their_own() -> None:
    """Five replicas on nodes of two: two full nodes and one with a replica less."""
    offers = catalog(offer("H100-SXM-80GB", 4.0, 2))
    scenario = question({"workload": {"request_rate": 20}, "limits": {"replicas": [5], "tp": [1]}}, model=MEDIUM)
    found = one_of(solve(scenario, catalog=offers, reasons=False), port=9000)
    full, last = found.placements
    assert (full.units, full.gpu_indices, full.ports) == (2, ((0,), (1,)), (9000, 9001))
    assert (last.units, last.gpu_indices, last.ports) == (1, ((0,),), (9000,))
    assert full.group != last.group


def test_lengths_that_vary_need_a_longer_request_than_the_mean() -> None:
    """Four standard deviations above the means, within what one replica's cache holds; a stated context is kept."""
    offers = catalog(offer("H100-SXM-80GB", 2.0))
    varied = question({"workload": {"input_cv": 1, "output_cv": 0.5}}, model=MEDIUM)
    assert longest_request(1000, 100, 1, 0.5) == 5300
    assert one_of(solve(varied, catalog=offers, reasons=False)).replica.max_model_len_tokens == 5300
    stated = question({"workload": {"input_cv": 1, "context_tokens": 2000}}, model=MEDIUM)
    assert one_of(solve(stated, catalog=offers, reasons=False)).replica.max_model_len_tokens == 2000


def test_the_plans_engine_and_release_are_kept() -> None:
    """Its own memory fraction too; another engine's fraction is worked out anew."""
    offers = catalog(offer("H100-SXM-80GB", 2.0))
    memory = {"policy": "engine", "engine": "vllm@0.19", "gpu_memory_utilization": 0.87}
    few = {"memory": memory, "limits": {"max_concurrency_per_replica": 16}}
    plan = solve(question(few, model=MEDIUM), catalog=offers, reasons=False)
    own = one_of(plan)
    assert (own.launch.engine, own.launch.version, own.replica.gpu_memory_fraction) == ("vllm", "0.19.1", 0.87)
    other = one_of(plan, engine="sglang")
    assert (other.launch.engine, other.launch.version) == ("sglang", "0.5.23")
    assert other.replica.gpu_memory_fraction == 0.80
    assert one_of(plan, engine_version="0.33.0").launch.version == "0.33.0"


def test_a_checkpoint_of_the_users_takes_the_place_of_the_plans() -> None:
    """It is loaded, and requests still call it by the plan's name; nothing is quantized on the way."""
    offers = catalog(offer("H100-SXM-80GB", 2.0))
    plan = solve(question({"limits": {"weights": "int4"}}, model=MEDIUM), catalog=offers, reasons=False)
    assert any("needs a checkpoint" in note for note in one_of(plan).launch.notes)
    own = one_of(plan, model="/models/llama awq")
    assert not any("needs a checkpoint" in note for note in own.launch.notes)
    assert own.launch.processes[0].command[2:5] == ("/models/llama awq", "--served-model-name", MEDIUM)


def test_fallbacks_are_the_next_cheapest_of_the_same_nodes() -> None:
    """Same GPUs and fabric, enough of them, allowed by the question, within its budget; the plan's own is not one."""
    day = load_offers().frame["seen_on"].max().date()
    plan = plan_of("llama-3.1-405b-two-nodes")
    found = one_of(plan)
    assert 0 < len(found.fallbacks) <= 3
    prices = [one.price_usd_per_node_hour for one in found.fallbacks]
    assert prices == sorted(prices)
    assert prices[0] >= found.nodes.price_usd_per_node_hour
    for one in found.fallbacks:
        assert (one.gpu, one.gpus_per_node, one.fabric) == (found.nodes.gpu, 8, found.nodes.fabric)
        assert (one.network, one.count, one.term) == (found.nodes.network, 2, "on-demand")
        assert replace(one, count=0) != replace(found.nodes, count=0)
    market = market_of(load_scenario(EXAMPLES / "llama-3.1-405b-two-nodes.yaml"), day)
    within = fallbacks(market, found.nodes, nodes_per_replica=2, scale_up_gpus=8, most_usd_per_hour=2 * prices[0])
    assert within == found.fallbacks[:1]


def test_prices_that_are_gone_leave_no_fallbacks() -> None:
    """A file of offers that is not there any more does not keep a plan from being started."""
    plan = plan_of("llama-3.1-70b-chat")
    gone = {**plan.scenario, "prices": {**plan.scenario["prices"], "offers_files": ["/nowhere/offers.csv"]}}
    found = one_of(plan.model_copy(update={"scenario": gone}))
    assert found.fallbacks == ()
    assert any(line.startswith("no fallbacks: ") and "/nowhere/offers.csv" in line for line in found.context)


def test_an_infeasible_plan_starts_nothing() -> None:
    """It says what would help."""
    plan = plan_of("infeasible-70b-on-small-budget")
    with pytest.raises(QuestionError, match=r"infeasible .* nothing to start; `shardwise explain"):
        deployments(plan)


def test_nodes_need_not_be_known_twice() -> None:
    """A chosen offer is not its own fallback, by name and place."""
    nodes = one_of(plan_of("llama-3.1-70b-chat")).nodes
    assert isinstance(nodes, Nodes)
    assert not nodes.spot


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("meta-llama/Llama-3.1-70B-Instruct", "llama-3-1-70b-instruct"),
        ("./models/My Model/config.json", "my-model"),
        ("org/7B", "model-7b"),
        ("/data/模型/", "model"),
        ("x/" + "a" * 90, "a" * 40),
    ],
)
def test_labels_are_dns_labels(name: str, label: str) -> None:
    """Whatever a model is called."""
    assert label_of(name) == label


def test_what_is_no_plan_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By file, or as standard input."""
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"scenario": {}, "status": "optimal"}))
    with pytest.raises(QuestionError, match=r"plan\.json: is not a plan"):
        read_plan_of(str(file))
    with pytest.raises(QuestionError, match="cannot be read"):
        read_plan_of(str(tmp_path / "none.json"))
    piped = tmp_path / "piped"
    piped.write_text("nonsense")
    with piped.open() as opened:
        monkeypatch.setattr("sys.stdin", opened)
        with pytest.raises(QuestionError, match="standard input: is not JSON"):
            read_plan_of("-")
