"""The command line: exit codes, what goes where, bad input, and that no question at all ends in a traceback."""

from __future__ import annotations

import csv
import io
import re
import shlex
from datetime import date
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalogs.errors import CatalogError
from catalogs.models import load_model
from catalogs.offers import load_offers
from optimizer.check import check_plan
from optimizer.commands.schema import SCHEMAS
from optimizer.errors import QuestionError
from optimizer.flags import FIELDS, read_question
from optimizer.plan import Plan
from optimizer.programs.layout import Settings
from optimizer.scenario import KV_DTYPES, PROVIDER_KINDS, TERMS, WEIGHT_FORMATS
from optimizer.solve import solve
from optimizer.version import __version__
from tests.optimizer.command import LLAMA_70B, SPHERON, TRAFFIC, Ran, run, spawn

ESCAPE = "\x1b"
FIT = ("fit", LLAMA_70B, "--gpu", "H100-SXM-80GB")
PREDICT = ("predict", LLAMA_70B, "--gpu", "H200-SXM-141GB", "--tp", "2")
LENGTHS = ("--input-tokens", "100", "--output-tokens", "10")
SOLVE = ("solve", LLAMA_70B, *TRAFFIC, *SPHERON)


def assert_refused(ran: Ran, *said: str) -> None:
    """Bad input: exit code 2, nothing on standard output, one message without a traceback."""
    assert (ran.code, ran.out) == (2, "")
    assert "Traceback" not in ran.err
    for words in said:
        assert words in ran.err


# As a process of its own


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        (0, (*FIT, "--tp", "4")),
        (3, (*FIT, "--tp", "1")),
        (2, (*FIT, "--tp", "zero")),
        (2, ("solve", "no-such-file.yaml")),
        (2, ("frobnicate",)),
    ],
)
def test_a_process_ends_with_the_code_of_its_answer(code: int, arguments: tuple[str, ...]) -> None:
    ran = spawn(*arguments)

    assert ran.code == code, ran.err
    assert bool(ran.out) == (code != 2)
    assert bool(ran.err) == (code == 2)
    assert "Traceback" not in ran.err


def test_the_plan_of_a_process_is_clean_json_on_standard_output() -> None:
    ran = spawn(*SOLVE, "--ttft-ms", "2000", "--json")  # the solver writes below Python, past what a test can catch

    assert (ran.code, ran.err) == (0, "")
    assert Plan.model_validate_json(ran.out).status == "optimal"


def test_an_infeasible_question_ends_with_3_and_still_prints_its_plan() -> None:
    ran = spawn(*SOLVE, "--ttft-ms", "1", "--json")

    assert (ran.code, ran.err) == (3, "")
    plan = Plan.model_validate_json(ran.out)
    assert (plan.status, plan.layout) == ("infeasible", None)
    assert [one.rule for one in plan.conflict] == ["ttft"]


@pytest.mark.parametrize("extra", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_piped_output_has_no_escape_codes_and_no_trailing_blanks(extra: dict[str, str]) -> None:
    for arguments in (("catalog", "gpus"), (*FIT, "--tp", "2")):
        ran = spawn(*arguments, **extra)

        assert ESCAPE not in ran.out
        assert [line for line in ran.out.splitlines() if line != line.rstrip()] == []


def test_a_fault_of_ours_is_one_line_and_code_1() -> None:
    with mock.patch("optimizer.fit.fit", side_effect=ZeroDivisionError("by zero")):
        ran = run(*FIT)

    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "shardwise: ZeroDivisionError: by zero\n(SHARDWISE_DEBUG=1 shows where)\n"


def test_a_fault_of_ours_shows_its_traceback_to_who_asks() -> None:
    with mock.patch("optimizer.fit.fit", side_effect=ZeroDivisionError("by zero")), pytest.raises(ZeroDivisionError):
        run(*FIT, SHARDWISE_DEBUG="1")


# Help


def test_the_version_is_the_packages() -> None:
    assert run("--version").out == f"shardwise {__version__}\n"


@pytest.mark.parametrize(
    "command",
    ["", "solve", "fit", "predict", "catalog", "catalog gpus", "catalog models", "catalog nodes", "catalog offers"],
)
def test_help_reads_at_80_columns_with_no_name_cut_short(command: str) -> None:
    ran = run(*command.split(), "--help")

    assert ran.code == 0
    assert max(map(len, ran.out.splitlines())) <= 80
    assert "…" not in ran.out


def test_help_of_solve_explains_every_flag() -> None:
    text = run("solve", "--help").out

    for name in (*FIELDS, "explain", "time_limit", "json"):
        flag = f"--{name.replace('_', '-')}"
        assert re.search(rf"│ {flag} +.*[A-Za-z]", text), flag


@pytest.mark.parametrize(
    ("command", "defaults"), [("fit", "1 8192 0.20 0.15 0.90 framework"), ("solve", "512 20 newest")]
)
def test_help_says_the_defaults(command: str, defaults: str) -> None:
    text = " ".join(run(command, "--help").out.replace("│", " ").split())

    for default in defaults.split():
        assert f"Default: {default}." in text


# Every listing


@pytest.mark.parametrize("listing", ["gpus", "models", "nodes", "offers --as-of 2026-08-14"])
@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_listing_keeps_names_whole_and_each_row_on_one_line(listing: str, columns: int) -> None:
    rows = run("catalog", *listing.split(), "--json").json
    lines = run("catalog", *listing.split(), columns=columns).out.splitlines()
    body = lines[2 : lines.index("")]

    shown = rows[:50] if listing.startswith("offers") else rows
    assert len(body) == len(shown)
    assert max(map(len, body)) <= columns
    first = {"gpus": "name", "models": "name", "nodes": "instance_type"}.get(listing, "provider")
    for row, line in zip(shown, body, strict=True):
        assert row[first] in line


@pytest.mark.parametrize("listing", ["gpus", "models", "nodes", "offers --as-of 2026-08-14"])
def test_a_listing_is_the_same_rows_as_table_json_and_csv(listing: str) -> None:
    rows = run("catalog", *listing.split(), "--json").json
    table = list(csv.DictReader(io.StringIO(run("catalog", *listing.split(), "--csv").out)))

    assert len(table) == len(rows) > 30
    assert list(table[0]) == list(rows[0])


def test_a_pipe_without_a_width_gets_every_column() -> None:
    line = run("catalog", "offers", "--limit", "1", columns=None).out.splitlines()[0]

    assert line.split("  ")[0] == "$/GPU-h"
    assert "instance type" in line
    assert line.endswith("seen on")


def test_filters_narrow_a_listing_and_its_last_line_says_how_far() -> None:
    ran = run("catalog", "offers", *SPHERON, "--gpu", "h200-sxm-141gb", "--term", "on-demand", "--limit", "3")

    assert ran.code == 0
    assert "3 of 12 rows. Prices as of 2026-08-14." in ran.out


def test_a_filter_that_nothing_passes_is_an_empty_listing() -> None:
    assert run("catalog", "gpus", "--match", "abacus", "--json").json == []
    assert "0 rows." in run("catalog", "gpus", "--match", "abacus").out


def test_the_users_own_offers_are_listed_with_the_rest(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(
        "provider,instance_type,gpu,gpus_per_node,price_usd_per_node_hour\nmycluster,box,H100-SXM-80GB,8,4\n"
    )
    rows = run("catalog", "offers", "--offers-file", str(file), "--provider", "mycluster", "--json").json

    assert [(row["provider_kind"], row["price_usd_per_gpu_hour"]) for row in rows] == [("own", 0.5)]


# Bad input


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("list.yaml", b"- a\n", "expected a mapping of fields (model, workload, ...); the file holds a list"),
        ("empty.yaml", b"", "the file holds nothing"),
        ("text.yaml", b"just words", "the file holds a str"),
        ("binary.yaml", b"\xff\xfe\x00", "is not a text file in UTF-8"),
        ("broken.yaml", b"model: [", "is not valid YAML"),
        ("twice.yaml", b"model: a\nmodel: b\n", "'model' is given twice"),
        ("typo.yaml", b"modell: a\n", "modell: is not a field; did you mean model?"),
        (
            "two.yaml",
            b"model: a\nworkload: {input_tokens: 1, output_tokens: 1, request_rate: 1, concurrency: 2}\n",
            "give exactly one of request_rate, concurrency, output_tokens_per_second; got request_rate and concurrency",
        ),
        ("none.yaml", b"model: a\nworkload: {input_tokens: 1, output_tokens: 1}\n", "got none of them"),
    ],
)
def test_a_bad_scenario_file_is_named_with_what_is_wrong(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)

    assert_refused(run("solve", str(path)), str(path), said)


def test_a_scenario_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "folder.yaml"
    folder.mkdir()

    assert_refused(run("solve", str(tmp_path / "none.yaml")), "none.yaml", "cannot be read: No such file")
    assert_refused(run("solve", str(folder)), "folder.yaml", "cannot be read: Is a directory")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"a": 1}', "missing keys: model_type"),
        ("no json", "not JSON"),
        ("[1]", "expected an object"),
        ('{"model_type": "llama"}', "missing keys"),
    ],
)
def test_a_config_that_is_none_is_named_with_what_is_missing(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(content)

    for question in (str(path), str(tmp_path)):
        assert_refused(run("solve", question, *TRAFFIC), "config.json", said)
        assert_refused(run("fit", question, "--gpu", "H100-SXM-80GB"), "config.json", said)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("solve meta-llama/Lama-3.1-70B-Instruct", "Unknown model 'meta-llama/Lama-3.1-70B-Instruct'. Did you mean"),
        (f"solve {LLAMA_70B} --gpu H100", "--gpu: Unknown GPU 'H100'. Did you mean H100-SXM-80GB"),
        (f"solve {LLAMA_70B} --provider awz", "Unknown provider 'awz'. Did you mean aws"),
        (f"solve {LLAMA_70B} --region us-eest-1", "Unknown region 'us-eest-1'. Did you mean us-east-1"),
        (
            f"solve {LLAMA_70B} --instance-type p5.48xlrge",
            "Unknown instance type 'p5.48xlrge'. Did you mean p5.48xlarge",
        ),
        (f"solve {LLAMA_70B} --term spt", "--term: unknown term 'spt'; did you mean spot?"),
        (f"solve {LLAMA_70B} --discount awz=10", "Unknown provider 'awz'. Did you mean aws"),
        (f"solve {LLAMA_70B} --as-of 1999-01-01", "No prices are as old as 1999-01-01: the first are of 2026-03-25"),
        (f"solve {LLAMA_70B} --concurrency 5", "--request-rate and --concurrency say the traffic twice"),
        (f"solve {LLAMA_70B} --offers-file nowhere.csv", "nowhere.csv:\n  - cannot be read"),
        (f"solve {LLAMA_70B} --time-limit inf", "--time-limit: expected seconds from 0.1 to 86,400; got 'inf'"),
    ],
)
def test_a_wrong_name_or_value_is_answered_with_what_would_do(arguments: str, said: str) -> None:
    assert_refused(run(*shlex.split(arguments), *TRAFFIC), said)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((*FIT, "--memory-policy", "engin"), "--memory-policy: expected 'framework' or 'engine'; got 'engin'"),
        ((*FIT, "--weights", "bf15"), "--weights: unknown weight format 'bf15'; did you mean bf16?"),
        ((*FIT, "--kv-cache", "bf15"), "--kv-cache: unknown KV cache dtype 'bf15'; did you mean bf16?"),
        ((*FIT, "--headroom", "1.5"), "--headroom: expected a share from 0 to 0.95"),
        ((*FIT, "--context", "-1"), "--context: expected a whole number"),
        ((*FIT, "--tp", "4", "--ep", "3"), "--ep 3: expected 1, or tp x attention_dp = 4"),
        (("fit", LLAMA_70B, "--gpu", "H100"), "Unknown GPU 'H100'. Did you mean H100-SXM-80GB"),
        ((*PREDICT, "--concurrency", "0", *LENGTHS), "--concurrency: expected a whole number from 1 to 4,096"),
        ((*PREDICT, "--concurrency", "1", *LENGTHS, "--weights", "any"), "--weights: unknown weight format 'any'"),
        ((*PREDICT, "--concurrency", "1", *LENGTHS, "--tp", "3"), "heads_divisible"),
        (("catalog", "gpus", "--json", "--csv"), "--json and --csv exclude each other; give one of them"),
        (("catalog", "offers", "--as-of", "x"), "--as-of: expected a day such as 2026-08-14; got 'x'"),
        (("catalog", "offers", "--as-of", "1999-01-01"), "No prices are as old as 1999-01-01"),
        (("catalog", "offers", "--limit", "-1"), "--limit: expected a whole number from 0"),
        (("catalog", "offers", "--term", "spt"), "Unknown term 'spt'. Did you mean spot"),
        (("catalog", "nodes", "--provider", "awz"), "Unknown provider 'awz'. Did you mean aws"),
        (("catalog", "nodes", "--gpu", "H1"), "Unknown GPU 'H1'. Did you mean H100"),
        (("solve", LLAMA_70B, "--frob"), "No such option: --frob"),
        (("solve",), "give a scenario file or a model, or --capacity FILE.json"),
    ],
)
def test_other_commands_answer_bad_input_alike(arguments: tuple[str, ...], said: str) -> None:
    assert_refused(run(*arguments), said)


# Any question at all

MODELS = (
    "meta-llama/Llama-3.1-8B-Instruct",
    LLAMA_70B,
    "Qwen/Qwen3-30B-A3B",
    "openai/gpt-oss-120b",
    "deepseek-ai/DeepSeek-V3",
)
GPUS = ("H100-SXM-80GB", "A100-SXM-80GB", "L4-24GB", "B200-SXM-180GB", "MI300X-192GB", "T4-16GB")


def some(*values: str) -> st.SearchStrategy[list[str]]:
    """A flag that takes a few of some values."""
    return st.lists(st.sampled_from(values), min_size=1, max_size=2, unique=True)


FLAGS: dict[str, st.SearchStrategy[Any]] = {
    "ttft_ms": st.sampled_from(["0.001", "200", "2000", "1e6"]),
    "tpot_ms": st.sampled_from(["0.001", "20", "100"]),
    "e2e_ms": st.sampled_from(["5000", "60000"]),
    "context": st.sampled_from(["8192", "131072", "10000000"]),
    "gpu": some(*GPUS),
    "exclude_gpu": some(*GPUS),
    "provider": some("aws", "gcp", "runpod", "spheron", "vast"),
    "provider_kind": some(*PROVIDER_KINDS, "any"),
    "region": some("global", "us-east-1"),
    "term": some(*TERMS, "any"),
    "weights": some(*WEIGHT_FORMATS, "checkpoint", "any"),
    "kv_cache": some(*KV_DTYPES, "auto", "any"),
    "tp": some("1", "2", "3", "8", "16"),
    "pp": some("1", "2", "64"),
    "ep": some("1", "8"),
    "attention_dp": some("1", "8"),
    "replicas": some("1", "3", "1000"),
    "max_gpus": st.sampled_from(["1", "8", "1000"]),
    "max_nodes": st.sampled_from(["1", "4"]),
    "budget_usd_per_hour": st.sampled_from(["0.000001", "5", "100", "1000000000"]),
    "tp_across_nodes": st.just(True),
    "max_concurrency": st.sampled_from(["1", "64", "4096"]),
    "max_utilization": st.sampled_from(["0.01", "0.5", "1"]),
    "memory_policy": st.sampled_from(["framework", "engine"]),
    "headroom": st.sampled_from(["0", "0.5", "0.95"]),
    "overhead": st.sampled_from(["0", "0.95"]),
    "gpu_memory_utilization": st.sampled_from(["0.01", "0.95", "1"]),
    "as_of": st.sampled_from(["2026-08-14", "2026-04-01", "2027-01-01"]),
    "max_price_age_days": st.sampled_from(["0", "90", "36500"]),
    "discount": some("aws=50", "10", "runpod=99"),
}
KINDS = {
    "request_rate": st.sampled_from(["0.000001", "0.5", "20", "1000000000"]),
    "concurrency": st.sampled_from(["1", "300", "1000000"]),
    "output_tokens_per_second": st.sampled_from(["0.01", "5000", "1000000000"]),
}


@st.composite
def questions(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A model, traffic, and up to six other flags, sensible or not."""
    kind = draw(st.sampled_from(sorted(KINDS)))
    flags: dict[str, Any] = {
        "input_tokens": draw(st.sampled_from(["1", "500", "8000", "10000000"])),
        "output_tokens": draw(st.sampled_from(["1", "200", "2000"])),
        kind: draw(KINDS[kind]),
    }
    for name in draw(st.lists(st.sampled_from(sorted(FLAGS)), max_size=6, unique=True)):
        flags[name] = draw(FLAGS[name])
    return draw(st.sampled_from(MODELS)), flags


@given(questions())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_question_gets_an_answer_that_its_checker_accepts_or_a_refusal(
    question: tuple[str, dict[str, Any]],
) -> None:
    name, flags = question
    try:
        scenario = read_question(name, flags)
        plan = solve(scenario, today=date(2026, 8, 24), settings=Settings(time_limit_s=5))
    except (QuestionError, CatalogError):
        return

    offers = load_offers(scenario.prices.as_of, scenario.prices.offers_files)
    assert check_plan(plan, load_model(name), offers.frame) == ()
    assert Plan.model_validate_json(plan.model_dump_json()) == plan
    if plan.status == "infeasible":
        assert plan.conflict
    else:
        assert plan.layout is not None
        assert all(target.holds for target in plan.targets)


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_every_answer_has_a_schema(name: str) -> None:
    ran = run("schema", name)
    assert ran.code == 0
    assert ran.json["type"] == "object"
