"""The question: what is accepted, and that everything else is refused in the user's words, never with a traceback."""

from __future__ import annotations

import math
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.errors import QuestionError, ScenarioError
from optimizer.fields import shown
from optimizer.scenario import Limits, Memory, Prices, Scenario, Targets, Workload, build_scenario, load_scenario

WORKLOAD = {"input_tokens": 2000, "output_tokens": 300, "request_rate": 4}
SMALLEST = {"model": "meta-llama/Llama-3.1-70B-Instruct", "workload": WORKLOAD}
WHOLE = "expected a whole number from 1 to 10,000,000"
POSITIVE = "expected a number from 0.000001 to 1,000,000,000"
SHARE = "expected a share from 0.01 to 1"


def refusal(fields: Any) -> str:
    """What build_scenario answers to bad fields."""
    with pytest.raises(ScenarioError) as caught:
        build_scenario(fields, where="chat.yaml")
    return str(caught.value)


def at(path: str, value: Any) -> dict[str, Any]:
    """The smallest scenario with one value put at a dotted path."""
    section, _, field = path.partition(".")
    if not field:
        return SMALLEST | {section: value}
    return SMALLEST | {section: {**SMALLEST.get(section, {}), field: value}}  # type: ignore[dict-item]


# What is accepted


def test_the_smallest_scenario_needs_a_model_lengths_and_traffic() -> None:
    scenario = build_scenario(SMALLEST)

    assert scenario.workload.kind == "request_rate"
    assert scenario.workload.demand == 4.0
    assert scenario.targets == Targets()
    assert scenario.limits.terms == ("on-demand",)
    assert "marketplace" not in scenario.limits.provider_kinds


def test_memory_is_kept_for_input_and_output_unless_a_context_is_given() -> None:
    assert build_scenario(SMALLEST).workload.held_tokens == 2300  # 2000 + 300
    assert build_scenario(at("workload.context_tokens", 8192)).workload.held_tokens == 8192


@pytest.mark.parametrize(
    ("traffic", "kind", "utilization"),
    [
        ({"request_rate": 4}, "request_rate", 0.85),
        ({"concurrency": 64}, "concurrency", 1.0),
        ({"output_tokens_per_second": 5000}, "output_tokens_per_second", 1.0),
    ],
)
def test_traffic_is_said_in_one_of_three_ways(traffic: dict[str, float], kind: str, utilization: float) -> None:
    scenario = build_scenario(SMALLEST | {"workload": {"input_tokens": 10, "output_tokens": 10, **traffic}})

    assert scenario.workload.kind == kind
    assert scenario.workload.demand == next(iter(traffic.values()))
    assert scenario.max_utilization == utilization


def test_the_users_utilization_wins_over_the_default() -> None:
    assert build_scenario(at("limits.max_utilization", 0.5)).max_utilization == 0.5


@pytest.mark.parametrize(
    ("path", "value", "read"),
    [
        ("limits.gpus", "h100-sxm-80gb, H200-SXM-141GB", ("H100-SXM-80GB", "H200-SXM-141GB")),
        ("limits.gpus", ["H100-SXM-80GB", "H100-SXM-80GB"], ("H100-SXM-80GB",)),
        ("limits.tp", "2,4", (2, 4)),
        ("limits.tp", 2, (2,)),
        ("limits.tp", {4, 2}, (2, 4)),
        ("limits.weights", "any", ("any",)),
        ("limits.max_gpus", "16", 16),
        ("limits.max_gpus", 16.0, 16),
        ("workload.input_tokens", "1e4", 10_000),  # YAML 1.1 reads 1e4 as text
        ("prices.as_of", "2026-08-14", date(2026, 8, 14)),
        ("prices.as_of", date(2026, 8, 14), date(2026, 8, 14)),
        ("prices.offers_files", "mine.csv", (Path("mine.csv"),)),
    ],
)
def test_values_are_read_the_way_people_write_them(path: str, value: Any, read: Any) -> None:
    section, _, field = path.partition(".")

    assert getattr(getattr(build_scenario(at(path, value)), section), field) == read


@pytest.mark.parametrize("section", ["targets", "limits", "memory", "prices", "description"])
def test_a_section_left_empty_counts_as_not_given(section: str) -> None:
    assert build_scenario(SMALLEST | {section: None}) == build_scenario(SMALLEST)


@pytest.mark.parametrize("part", [Workload(**WORKLOAD), Targets(), Limits(), Memory(), Prices()])
def test_a_question_cannot_change_under_ones_feet(part: Any) -> None:
    with pytest.raises(ValueError, match="frozen"):
        setattr(part, next(iter(type(part).model_fields)), 1)


def test_a_changed_copy_is_checked_like_the_first() -> None:
    scenario = build_scenario(at("limits.quotas", [{"gpu": "H100-SXM-80GB", "max_gpus": 8}]))
    cheaper = scenario.changed("limits", terms=("spot",), budget_usd_per_hour=10)

    assert cheaper.limits.terms == ("spot",)
    assert cheaper.limits.quotas == scenario.limits.quotas
    assert scenario.limits.terms == ("on-demand",)
    with pytest.raises(ScenarioError, match=r"limits\.tp\.0"):
        scenario.changed("limits", tp=(0,))


def test_a_scenario_survives_json() -> None:
    scenario = build_scenario(at("prices.as_of", "2026-08-14"))

    assert build_scenario(scenario.model_dump(mode="json")) == scenario


# What is refused

NOT_WHOLE = ["many", "", -1, 0, 1.5, math.nan, math.inf, -math.inf, 1e300, 10**5000, True, [1], {}, b"1"]
NOT_POSITIVE = ["fast", "", -1, 0, 5e-324, math.nan, math.inf, 1e300, 10**5000, True, [1], {}, "nan", "inf"]


@pytest.mark.parametrize("value", NOT_WHOLE, ids=shown)
@pytest.mark.parametrize("field", ["input_tokens", "output_tokens"])
def test_a_length_is_a_whole_number(field: str, value: Any) -> None:
    message = refusal(at(f"workload.{field}", value))

    assert f"chat.yaml:\n  - workload.{field}: {WHOLE}; got " in message
    assert shown(value) in message


@pytest.mark.parametrize("value", NOT_POSITIVE, ids=shown)
@pytest.mark.parametrize(
    "path",
    ["workload.request_rate", "targets.ttft_ms", "targets.tpot_ms", "targets.e2e_ms", "limits.budget_usd_per_hour"],
)
def test_a_rate_a_target_and_a_budget_are_positive_numbers(path: str, value: Any) -> None:
    assert f"- {path}: {POSITIVE}; got {shown(value)}" in refusal(at(path, value))


@pytest.mark.parametrize("value", [0, -0.1, 1.01, 85, math.nan, "most", True])
@pytest.mark.parametrize("path", ["limits.max_utilization", "memory.gpu_memory_utilization"])
def test_a_share_is_not_a_percentage(path: str, value: Any) -> None:
    assert f"- {path}: {SHARE} (90% is 0.9); got {shown(value)}" in refusal(at(path, value))


@pytest.mark.parametrize("value", [-0.1, 1, 15, math.nan, "some", True])
@pytest.mark.parametrize("path", ["memory.overhead", "memory.headroom"])
def test_overhead_and_headroom_are_shares_below_one(path: str, value: Any) -> None:
    assert f"- {path}: expected a share from 0 to 0.95 (15% is 0.15); got {shown(value)}" in refusal(at(path, value))


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("model", "", "model: expected a name that is not empty; got ''"),
        ("model", 70, "model: expected text; got 70"),
        ("model", None, "model: expected text; got nothing"),
        ("model", "x" * 5000, "model: expected at most 4,096 characters; got 'xxx"),
        ("description", 3, "description: expected text; got 3"),
        ("workload", 3, "workload: expected a mapping of fields (input_tokens, output_tokens, request_rate"),
        ("workload", [1], "got [1]"),
        ("workload", None, "got nothing"),
        ("targets", "fast", "targets: expected a mapping of fields (at, ttft_ms, tpot_ms, e2e_ms, confidence)"),
        ("target", {}, "target: is not a field; did you mean targets?"),
        (
            "xyz",
            1,
            "xyz: is not a field (known: model, description, workload, targets, limits, memory, prices, performance)",
        ),
        ("workload.input_token", 3, "workload.input_token: is not a field; did you mean input_tokens?"),
        ("targets.ttft", 3, "targets.ttft: is not a field; did you mean ttft_ms?"),
        ("limits.gpus", ["H100-SMX-80GB"], "Unknown GPU 'H100-SMX-80GB'. Did you mean H100-SXM-80GB"),
        ("limits.exclude_gpus", "H200-SXM", "limits.exclude_gpus: Unknown GPU 'H200-SXM'. Did you mean H200-SXM-141GB"),
        ("limits.gpus", ["zzzzz"], "`shardwise catalog gpus` lists"),
        ("limits.gpus", [5], "limits.gpus.0: expected text; got 5"),
        ("limits.gpus", {"a": 1}, "limits.gpus.0: expected text; got {'a': 1}"),
        ("limits.regions", [""], "limits.regions.0: expected a name that is not empty"),
        ("limits.providers", ["x" * 300], "limits.providers.0: expected at most 200 characters"),
        ("limits.terms", "spott", "unknown term 'spott'; did you mean spot? (accepted: on-demand, spot,"),
        ("limits.terms", [], "limits.terms: terms is empty, so nothing would be allowed; accepted: on-demand"),
        ("limits.provider_kinds", "market", "did you mean marketplace? (accepted: hyperscaler, gpu-cloud,"),
        ("limits.weights", ["fp8", "zz9"], "unknown weight format 'zz9' (accepted: checkpoint, any, fp32, bf16,"),
        ("limits.kv_cache", "fp9", "unknown KV cache dtype 'fp9'; did you mean fp8? (accepted: auto, any, bf16,"),
        ("limits.tp", [2, 0], "limits.tp.1: expected a whole number from 1 to 1,024; got 0"),
        ("limits.tp", 5000, "limits.tp.0: expected a whole number from 1 to 1,024; got 5000"),
        ("limits.replicas", "two", "limits.replicas.0: expected a whole number from 1 to 100,000; got 'two'"),
        ("limits.max_gpus", 0, "limits.max_gpus: expected a whole number from 1 to 1,000,000,000; got 0"),
        ("limits.max_nodes_per_replica", 65, "expected a whole number from 1 to 64; got 65"),
        ("limits.max_concurrency_per_replica", 10**6, "expected a whole number from 1 to 4,096; got 1000000"),
        ("limits.tp_across_nodes", "maybe", "limits.tp_across_nodes: expected true or false; got 'maybe'"),
        ("limits.tp_across_nodes", 7, "limits.tp_across_nodes: expected true or false; got 7"),
        ("limits.quotas", {"max_gpus": 1}, "limits.quotas: expected a list; got {'max_gpus': 1}"),
        ("limits.quotas", [{}], "limits.quotas.0: a quota needs max_gpus or max_nodes"),
        ("limits.quotas", [{"max_gpu": 1}], "limits.quotas.0.max_gpu: is not a field; did you mean max_gpus?"),
        (
            "limits.quotas",
            [{"gpu": "A100-SXM-80", "max_gpus": 1}],
            "limits.quotas.0.gpu: Unknown GPU 'A100-SXM-80'. Did",
        ),
        ("limits.quotas", [8], "limits.quotas.0: expected a mapping of fields (gpu, provider, region, max_gpus, max_n"),
        ("memory.policy", "frame", "memory.policy: expected 'framework' or 'engine'; got 'frame'"),
        ("memory.max_batched_tokens", 0, "expected a whole number from 1 to 1,048,576; got 0"),
        ("prices.as_of", "yesterday", "prices.as_of: expected a day such as 2026-08-14; got 'yesterday'"),
        ("prices.as_of", "2026-13-45", "expected a day such as 2026-08-14; got '2026-13-45'"),
        ("prices.as_of", 20260814, "expected a day such as 2026-08-14; got 20260814"),
        ("prices.as_of", "20260814", "expected a day such as 2026-08-14; got '20260814'"),
        ("prices.as_of", True, "expected a day such as 2026-08-14; got true"),
        ("prices.as_of", datetime(2026, 8, 14, 12), "expected a day such as 2026-08-14"),
        ("prices.max_age_days", -1, "prices.max_age_days: expected a whole number from 0 to 36,500; got -1"),
        ("prices.stale_after_days", 1.5, "expected a whole number from 0 to 36,500; got 1.5"),
        ("prices.discounts", 5, "prices.discounts: expected a list; got 5"),
        ("prices.discounts", [{"percent": 100}], "prices.discounts.0.percent: expected a percentage above 0 and at"),
        ("prices.discounts", [{"provider": "aws"}], "prices.discounts.0.percent: is missing; it must be given"),
        (
            "prices.discounts",
            [{"percent": 5, "term": "x"}],
            "expected 'on-demand', 'spot', 'reserved-1y', 'reserved-3y' or 'owned'",
        ),
        (
            "prices.discounts",
            [{"percent": 5, "gpu": "T5-16GB"}],
            "prices.discounts.0.gpu: Unknown GPU 'T5-16GB'. Did you me",
        ),
        ("prices.offers_files", [3], "prices.offers_files.0: expected a file name; got 3"),
    ],
)
def test_a_wrong_value_is_answered_with_field_value_and_what_is_accepted(path: str, value: Any, words: str) -> None:
    message = refusal(at(path, value))

    assert message.startswith("chat.yaml:\n  - ")
    assert path.partition(".")[0] in message
    assert words in message


@pytest.mark.parametrize(
    ("traffic", "got"),
    [
        ({}, "none of them"),
        ({"request_rate": 1, "concurrency": 2}, "request_rate and concurrency"),
        ({"request_rate": 1, "concurrency": 2, "output_tokens_per_second": 3}, "and output_tokens_per_second"),
    ],
)
def test_traffic_said_twice_or_never_is_contradictory(traffic: dict[str, float], got: str) -> None:
    message = refusal(SMALLEST | {"workload": {"input_tokens": 10, "output_tokens": 10, **traffic}})

    assert "workload: give exactly one of request_rate, concurrency, output_tokens_per_second; got " in message
    assert got in message


def test_a_context_shorter_than_the_request_is_contradictory() -> None:
    # 2000 + 300 = 2300 tokens do not fit a context of 2299.
    assert "context_tokens 2299 is shorter than input_tokens + output_tokens = 2300" in refusal(
        at("workload.context_tokens", 2299)
    )


@pytest.mark.parametrize("what", ["gpus", "providers"])
def test_allowing_only_what_is_excluded_is_contradictory(what: str) -> None:
    name = {"gpus": "H100-SXM-80GB", "providers": "aws"}[what]

    assert f"exclude_{what} rules out all that {what} allows ({name})" in refusal(
        SMALLEST | {"limits": {what: [name], f"exclude_{what}": [name]}}
    )


def test_every_problem_is_reported_at_once() -> None:
    message = refusal({"modle": "x", "workload": {"input_tokens": -1}, "targets": {"ttft_ms": "soon"}})

    assert message.count("\n  - ") == 5  # model, input_tokens, output_tokens, ttft_ms, modle
    assert "model: is missing; it must be given" in message


def test_names_of_fields_from_outside_cannot_garble_the_terminal() -> None:
    message = refusal(SMALLEST | {"\x1b[31mred": 1, "y" * 5000: 2, "\ud800": 3})

    assert "\x1b" not in message
    assert message.encode()  # a lone surrogate would raise here
    assert len(message) < 2000


def test_a_field_name_that_is_no_text_is_no_field() -> None:
    assert "1: is not a field" in refusal(SMALLEST | {1: 2})  # type: ignore[dict-item]


# Files


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "chat.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def file_refusal(path: Path) -> str:
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:\n  - ")
    return message


GOOD_FILE = """
model: ./llama/config.json
workload: {input_tokens: 2000, output_tokens: 300, request_rate: 4}
targets:
prices:
  as_of: 2026-08-14
  offers_files: [mine.csv, /abs/theirs.csv]
"""


def test_paths_in_a_file_are_relative_to_the_file(tmp_path: Path) -> None:
    scenario = load_scenario(write(tmp_path, GOOD_FILE))

    assert scenario.model == str(tmp_path / "llama/config.json")
    assert scenario.prices.offers_files == (tmp_path / "mine.csv", Path("/abs/theirs.csv"))
    assert scenario.prices.as_of == date(2026, 8, 14)


def test_a_model_name_in_a_file_is_not_a_path(tmp_path: Path) -> None:
    scenario = load_scenario(write(tmp_path, GOOD_FILE.replace("./llama/config.json", "org/name")))

    assert scenario.model == "org/name"


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    assert load_scenario(write(tmp_path, "\ufeff" + GOOD_FILE)) == load_scenario(write(tmp_path, GOOD_FILE))


BOMB = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]\n" for i in range(20)
)
MERGE_BOMB = "a: &a {x: 1}\nb: &b {<<: [*a, *a, *a, *a]}\nc: {<<: [*b, *b, *b, *b]}\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected a mapping of fields (model, workload, ...); the file holds nothing"),
        ("# only a comment\n", "the file holds nothing"),
        ("- a\n- b\n", "the file holds a list"),
        ("just words", "the file holds a str"),
        ("42", "the file holds a int"),
        ("model: [unclosed", "is not valid YAML: while parsing a flow sequence"),
        ("model: a\n\tworkload: b", "is not valid YAML"),
        ("a: 1\n---\nb: 2\n", "expected a single document"),
        ("model: !!python/object/apply:os.system [ls]", "could not determine a constructor"),
        ("? [a]\n: 1\n", "found unhashable key"),
        (BOMB, "line 2: an alias (*a) is not accepted; write the value out"),
        (MERGE_BOMB, "line 2: an alias (*a) is not accepted"),
        ("model: " + "[" * 25 + "]" * 25, "is nested deeper than 20 levels"),
        ("[" * 100_000, "is not"),
        ("- " * 100_000, "is nested deeper than 20 levels"),
        ("model: a\nmodel: b\n", "line 2: 'model' is given twice; give it once"),
        ("limits:\n  quotas:\n  - {max_gpus: 1, max_gpus: 2}\n", "line 3: 'max_gpus' is given twice"),
        ("model: " + "9" * 5000, "is not valid YAML: Exceeds the limit"),
        (b"\xff\xfe\x00m", "is not a text file in UTF-8; expected YAML"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "is not a text file in UTF-8"),
        (b"\x00" * 100, "is not valid YAML"),
        (b"#" * 1_000_001, "is larger than 1,000,000 bytes; expected a short YAML file"),
        ("model: m\nworkload: {input_tokens: .nan}", "workload.input_tokens: " + WHOLE + "; got nan"),
        ("model: m\nworkload: {input_tokens: .inf}", WHOLE + "; got inf"),
        ("model: m\nworkload: {input_tokens: 0x" + "f" * 5000 + "}", "got a number of more than 30 digits"),
        ("prices: {as_of: 2026-13-45}", "prices.as_of: expected a day such as 2026-08-14; got '2026-13-45'"),
        ("prices: {offers_files: 7}", "prices.offers_files.0: expected a file name; got 7"),
        ("workload: {input_tokens: yes}", WHOLE + "; got true"),
    ],
)
def test_a_bad_file_gets_one_message(tmp_path: Path, text: str | bytes, words: str) -> None:
    message = file_refusal(write(tmp_path, text))

    assert words in message
    assert len(message) < 2000


def test_a_missing_file_and_a_folder_are_said_to_be_so(tmp_path: Path) -> None:
    assert "cannot be read: No such file or directory" in file_refusal(tmp_path / "none.yaml")
    assert "cannot be read: Is a directory" in file_refusal(tmp_path)
    assert "cannot be read: Not a directory" in file_refusal(write(tmp_path, "") / "deeper.yaml")
    assert "cannot be read: embedded null byte" in file_refusal(tmp_path / "nul\0.yaml")


def test_a_file_without_permission_is_said_to_be_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)

    assert "cannot be read: Permission denied" in file_refusal(tmp_path / "chat.yaml")


def test_an_endless_file_is_not_read_to_its_end() -> None:
    assert "is larger than 1,000,000 bytes" in file_refusal(Path("/dev/zero"))


def test_a_scenario_error_is_a_question_error_and_keeps_each_problem() -> None:
    error = ScenarioError("chat.yaml", ["a: is wrong", "b: is too"])

    assert isinstance(error, QuestionError)
    assert error.where == "chat.yaml"
    assert error.problems == ("a: is wrong", "b: is too")
    assert str(error) == "chat.yaml:\n  - a: is wrong\n  - b: is too"


# Junk

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.binary(max_size=5),
    st.dates(),
    st.datetimes(),
    st.sampled_from(["H100-SXM-80GB", "spot", "fp8", "any", "aws", 10**400, "1e400", "2026-08-14", "-0", " 7 "]),
)
KEYS = st.sampled_from(
    [
        name
        for part in (Scenario, Workload, Targets, Limits, Memory, Prices)
        for name in [*part.model_fields, "percent", "gpu", "provider"]
    ]
)
JUNK = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(KEYS, st.text(max_size=5), st.integers()), inner, max_size=4),
    ),
    max_leaves=12,
)


def _scenario_or_refusal(fields: Any) -> None:
    """Anything but a Scenario or a ScenarioError fails the test by itself."""
    try:
        workload = build_scenario(fields).workload
    except ScenarioError as error:
        said = str(error).encode()  # a lone surrogate would raise here
    else:
        said = workload.kind.encode()
        assert workload.demand > 0
        assert workload.held_tokens >= workload.input_tokens + workload.output_tokens
    assert said


@settings(max_examples=300, deadline=None)
@given(JUNK)
def test_junk_is_a_scenario_or_a_refusal(fields: Any) -> None:
    _scenario_or_refusal(fields)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(KEYS, SCALARS, max_size=3), KEYS, JUNK)
def test_junk_inside_a_good_scenario_is_a_scenario_or_a_refusal(section: dict[str, Any], key: str, junk: Any) -> None:
    for name in ("workload", "targets", "limits", "memory", "prices"):
        _scenario_or_refusal(SMALLEST | {name: {**SMALLEST.get(name, {}), **section, key: junk}})  # type: ignore[dict-item]


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.binary(max_size=60), st.text(alphabet=":-[]{}&*!|>'\"%@`#?,. \n\tab01<", max_size=60)))
def test_junk_files_are_a_scenario_or_a_refusal(tmp_path_factory: pytest.TempPathFactory, content: str | bytes) -> None:
    path = write(tmp_path_factory.getbasetemp(), content)
    try:
        said = load_scenario(path).model
    except ScenarioError as error:
        said = str(error)
    assert said
