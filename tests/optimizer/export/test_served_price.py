"""A running server priced against the best layout, and `shardwise import` as a person runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from optimizer.errors import QuestionError
from optimizer.export.served import read_vllm
from optimizer.export.served_answer import ServedPrice
from optimizer.export.served_price import Hardware, layout_words, price_served
from optimizer.scenario import Scenario
from optimizer.solve import solve
from tests.optimizer.catalogs import MEDIUM, catalog, offer, question
from tests.optimizer.command import LLAMA_70B, SPHERON, TRAFFIC, run

OFFERS = catalog(
    offer("H100-SXM-80GB", 4.0, 2),
    offer("H100-SXM-80GB", 1.0, 2, term="spot"),
    offer("H100-SXM-80GB", 6.0, 2, provider="bolt"),
    offer("L40S-48GB", 1.0),
    offer("T4-16GB", 0.2),
)


def priced(flags: str = "", gpu: str = "H100-SXM-80GB", asked: Scenario | None = None, **where: object) -> ServedPrice:
    """Llama 3.1 8B on two H100, at 4 requests/s; offers by hand."""
    served = read_vllm(f"vllm serve {MEDIUM} -tp 2 {flags}")
    return price_served(served, Hardware(gpu=gpu, **where), asked or question(model=MEDIUM), catalog=OFFERS)  # type: ignore[arg-type]


def test_what_one_has_is_compared_with_the_best() -> None:
    """$4 on two H100, on-demand as the question allows, against one L40S at $1."""
    found = priced()
    assert found.today is not None
    assert found.best is not None
    assert (found.today.usd_per_hour, found.today.feasible, found.today.breaks) == (4.0, True, {})
    best = solve(question(model=MEDIUM), catalog=OFFERS, reasons=False)
    assert best.layout == found.best.layout
    assert found.saving_usd_per_hour == pytest.approx(4.0 - found.best.usd_per_hour)
    assert found.why_not is not None
    assert found.why_not.verdict == "dearer"


def test_its_own_limits_count() -> None:
    """Two requests at once do not carry what the engine's defaults do; the best layout is not held to them."""
    free, held = priced(), priced("--max-num-seqs 2")
    assert free.today is not None
    assert held.today is not None
    assert held.today.concurrency_per_replica == 2 < free.today.concurrency_per_replica
    assert "traffic" in held.today.breaks
    assert held.best == free.best


def test_targets_that_are_missed_are_said_with_their_numbers() -> None:
    """A time per token below what two H100 reach."""
    tight = question({"targets": {"tpot_ms": 1.0}}, model=MEDIUM)
    found = priced(asked=tight)
    assert found.today is not None
    assert not found.today.feasible
    (met,) = found.today.targets
    assert (met.name, met.target_ms, met.holds) == ("tpot", 1.0, False)
    assert met.predicted_ms is not None
    assert met.predicted_ms > 1.0
    assert found.best is None


def test_a_model_length_that_refuses_the_traffic_is_said() -> None:
    """Requests of 1,100 tokens against --max-model-len 512."""
    found = priced("--max-model-len 512")
    assert found.today is not None
    assert found.today.breaks == {"max_model_len": "requests have 1,100 tokens; --max-model-len 512 refuses them"}


def test_where_it_runs_is_kept_to() -> None:
    """A provider and a term that the question does not allow are what one has."""
    spot, bolt, four = priced(term="spot"), priced(provider="bolt"), priced(nodes=4)
    assert spot.today is not None
    assert bolt.today is not None
    assert four.today is not None
    assert (spot.today.usd_per_hour, spot.today.feasible) == (1.0, True)
    assert (bolt.today.usd_per_hour, bolt.today.layout.provider) == (6.0, "bolt")
    assert (four.today.usd_per_hour, four.today.layout.replicas) == (16.0, 4)


def test_replicas_are_servers() -> None:
    """A dense model's data-parallel ranks are replicas, in each server."""
    served = read_vllm(f"vllm serve {MEDIUM} -dp 2")
    found = price_served(served, Hardware("H100-SXM-80GB", replicas=3), question(model=MEDIUM), catalog=OFFERS)
    assert found.today is not None
    assert found.today.layout.replicas == 6


def test_a_server_that_could_not_run_has_no_figures() -> None:
    """8B in BF16 does not fit a T4; that GPU has no BF16 either."""
    found = price_served(
        read_vllm(f"vllm serve {MEDIUM} --dtype float16"), Hardware("T4-16GB"), question(model=MEDIUM), catalog=OFFERS
    )
    assert found.today is None or (found.today.ttft_ms is None and "vram_headroom" in found.today.breaks)


def test_names_that_no_offer_has_are_refused() -> None:
    """With near ones."""
    with pytest.raises(QuestionError, match=r"--provider: .*Did you mean bolt"):
        priced(provider="blot")
    with pytest.raises(QuestionError, match="--term 'daily'"):
        priced(term="daily")


def test_its_own_precision_is_allowed_to_the_best_layout_too() -> None:
    """Who serves FP8 today would take it from another layout."""
    found = priced("-q fp8")
    assert found.today is not None
    assert found.best is not None
    assert found.today.layout.weights == "fp8"
    assert found.today.feasible
    plan = solve(question({"limits": {"weights": ["checkpoint", "fp8"]}}, model=MEDIUM), catalog=OFFERS, reasons=False)
    assert plan.cost is not None
    assert found.best.usd_per_hour == plan.cost.usd_per_hour


def test_the_words_are_those_of_explain() -> None:
    """Every size, so that nothing is left free."""
    served = read_vllm(f"vllm serve {MEDIUM} -tp 2 --kv-cache-dtype fp8")
    words = layout_words(served, Hardware("H100-SXM-80GB", term="spot", provider="acme"))
    assert words == (
        "H100-SXM-80GB tp=2 pp=1 ep=1 attention_dp=1 weights=bf16 kv_cache=fp8 replicas=1 provider=acme term=spot"
    )


COMMAND = f"vllm serve {LLAMA_70B} --tensor-parallel-size 4 --enable-prefix-caching"


def test_a_command_is_shown_as_a_table() -> None:
    ran = run("import", "vllm", COMMAND)
    assert (ran.code, ran.err) == (0, "")
    assert f"READ  {LLAMA_70B}: bf16 TP4 on 4 GPUs" in ran.out
    assert "Not part of the layout: --enable-prefix-caching" in ran.out
    assert max(map(len, ran.out.splitlines())) <= 80


def test_a_price_in_one_go() -> None:
    where = ("--gpu", "A100-SXM-80GB", "--provider", "spheron", "--as-of", SPHERON[-1])
    ran = run("import", "vllm", COMMAND, *where, *TRAFFIC)
    assert (ran.code, ran.err) == (0, "")
    assert "At this traffic, prices of 2026-08-14" in ran.out
    assert "today: 4x A100-SXM-80GB (spheron" in ran.out
    assert max(map(len, ran.out.splitlines())) <= 80
    printed = run("import", "vllm", COMMAND, *where, *TRAFFIC, "--json").json
    assert ServedPrice.model_validate(printed).model_dump(mode="json") == printed
    assert printed["today"]["usd_per_hour"] == 5.72
    assert run("schema", "import").json["title"] == "ServedPrice"


def test_a_question_without_an_answer_leaves_with_its_exit_code() -> None:
    where = ("--gpu", "A100-SXM-80GB", "--provider", "spheron", "--as-of", SPHERON[-1])
    ran = run("import", "vllm", COMMAND, *where, *TRAFFIC, "--tpot-ms", "0.5")
    assert ran.code == 3
    assert "No layout in the catalog keeps every rule" in " ".join(ran.out.split())


def test_the_words_go_on_to_explain(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(run("solve", LLAMA_70B, *TRAFFIC, *SPHERON, "--json").out)
    words = run("import", "vllm", COMMAND, "--gpu", "A100-SXM-80GB", "--layout-words")
    assert words.code == 0
    why = run("explain", str(plan), "--why-not", words.out.strip(), "--json")
    assert why.code == 0
    assert json.loads(why.out)["why_not"]["understood"]["tp"] == "4"


def test_traffic_from_a_scenario_file(tmp_path: Path) -> None:
    file = tmp_path / "chat.yaml"
    file.write_text(
        f"model: {LLAMA_70B}\nworkload: {{input_tokens: 2000, output_tokens: 300, request_rate: 1}}\n"
        "limits: {providers: [spheron]}\nprices: {as_of: 2026-08-14}\n"
    )
    ran = run("import", "vllm", COMMAND, "--gpu", "A100-SXM-80GB", "--scenario", str(file), "--request-rate", "2")
    assert ran.code == 0
    assert "best:" in ran.out
    other = run("import", "vllm", f"vllm serve {MEDIUM}", "--gpu", "L40S-48GB", "--scenario", str(file))
    assert other.code == 2
    assert f"is about {LLAMA_70B}" in other.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("rm -rf /",), "starts no vLLM server"),
        ((COMMAND, "--provider", "aws"), "hardware needs its GPU type"),
        ((COMMAND, "--layout-words"), "give --gpu as well"),
        ((COMMAND, "--gpu", "H100-SXM-80GB", "--nodes", "0"), "expected a whole number"),
        ((COMMAND, "--gpu", "H100-SXM-80GB", "--request-rate", "4"), "--input-tokens"),
        ((COMMAND, "--gpu", "H900", *TRAFFIC), "H900"),
    ],
)
def test_bad_input_is_answered_in_a_line(arguments: tuple[str, ...], said: str) -> None:
    ran = run("import", "vllm", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_what_is_missing_for_a_price_is_said(tmp_path: Path) -> None:
    (tmp_path / "chat.yaml").write_text(
        f"model: {MEDIUM}\nworkload: {{input_tokens: 500, output_tokens: 100, request_rate: 1}}\n"
    )
    served = ("import", "vllm", f"vllm serve {MEDIUM}", "--scenario")
    ran = run(*served, str(tmp_path / "chat.yaml"))
    assert (ran.code, ran.err) == (0, "shardwise: it is not priced: give --gpu, the type that it runs on, as well\n")
    ran = run(*served, "plan.json", "--gpu", "L4-24GB")
    assert ran.code == 2
    assert "--scenario plan.json: expected a scenario file, which ends in .yaml or .yml" in ran.err
