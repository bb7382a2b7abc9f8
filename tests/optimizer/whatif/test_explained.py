"""Plans explained: reproduced, what binds by giving it up, dollars that add up, and why not another layout."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catalogs.models import load_model
from optimizer.errors import QuestionError
from optimizer.plan import Plan
from optimizer.solve import solve
from optimizer.whatif.explain_answer import Bound, Explained, WhyNot
from optimizer.whatif.explained import explain_plan
from tests.optimizer.catalogs import MEDIUM, SMALL, TODAY, Fields, catalog, draw, offer, question
from tests.optimizer.command import LLAMA_70B, SPHERON, TRAFFIC, run

H100, L4, V100 = "H100-SXM-80GB", "L4-24GB", "V100-SXM-16GB"
Ask = Callable[..., Explained]


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """Solve a question on a hand-made catalog, keep the plan, and explain it on the same catalog or another one."""

    def asked(
        sections: Fields,
        *offers: dict[str, Any],
        named: str | None = None,
        model: str = SMALL,
        now: tuple[dict[str, Any], ...] | None = None,
    ) -> Explained:
        path = tmp_path / "plan.json"
        scenario = question(sections, model=model)
        plan = solve(scenario, model=load_model(model), catalog=catalog(*offers), today=TODAY)
        path.write_text(plan.model_dump_json())
        return explain_plan(path, named, catalog=catalog(*(now or offers)))

    return asked


def why(found: Explained) -> WhyNot:
    assert found.why_not is not None
    return found.why_not


def bound(found: Explained, name: str, where: str = "") -> Bound:
    return next(one for one in found.bounds if one.name == name and where in one.where)


def test_a_plan_is_solved_again_and_stands(ask: Ask) -> None:
    found = ask({}, offer(H100, 2.5), offer(L4, 3.0))

    assert (found.reproduced, found.differences, found.usd_per_hour) == (True, (), 2.5)


def test_a_plan_that_other_prices_overturned_says_so(ask: Ask) -> None:
    found = ask({}, offer(H100, 2.5), now=(offer(H100, 2.5), offer(L4, 0.5)))

    assert not found.reproduced
    assert any(L4 in said for said in found.differences)
    assert any("1 offers were known, and now 2" in said for said in found.differences)


def test_a_target_binds_where_giving_it_up_is_cheaper_and_not_where_it_is_not(ask: Ask) -> None:
    # 16 GB over an L4's 0.3 TB/s take over 50 ms a token, so 20 ms take an H100; TTFT would hold on both.
    targets = {"targets": {"tpot_ms": 20, "ttft_ms": 60_000}, "workload": {"request_rate": 0.1}}
    found = ask(targets, offer(H100, 2.5), offer(L4, 0.5), model=MEDIUM)
    tpot, ttft = bound(found, "tpot", "traffic"), bound(found, "ttft")

    assert (tpot.binds, tpot.without_usd_per_hour) == (True, 0.5)
    assert (ttft.binds, ttft.without_usd_per_hour) == (False, 2.5)
    assert ttft.left_share == pytest.approx(1 - ttft.used / 60_000)


def test_quotas_budget_and_stock_are_counted_with_what_is_left(ask: Ask) -> None:
    # Three nodes of one GPU: of 4 in stock, 6 allowed at acme, within $10.
    fields = {
        "limits": {
            "replicas": [3],
            "budget_usd_per_hour": 10.0,
            "quotas": [{"provider": "acme", "max_gpus": 6}, {"gpu": L4, "max_gpus": 1}],
        }
    }
    found = ask(fields, offer(H100, 2.5, max_nodes=4.0))
    quotas = {one.where: (one.used, one.limit) for one in found.bounds if one.name == "quota"}

    assert quotas == {"of stock": (3.0, 4.0), "of acme": (3.0, 6.0)}
    assert (bound(found, "budget").used, bound(found, "budget").left_share) == (7.5, 0.25)
    lefts = [one.left_share for one in found.bounds]
    assert lefts == sorted(lefts)


def test_dollars_are_spent_on_work_communication_idle_capacity_and_idle_gpus(ask: Ask) -> None:
    # Three replicas of one GPU on nodes of two: one GPU of four is idle, a quarter of $8.
    found = ask({"limits": {"replicas": [3], "tp": [1], "pp": [1]}}, offer(H100, 4.0, 2))
    money = found.money

    assert money is not None
    assert money.idle_gpus == pytest.approx(2.0)
    assert money.communication == 0.0
    assert money.idle_capacity == pytest.approx(6.0 * (1 - money.utilization))
    assert money.work + money.communication + money.idle_capacity + money.idle_gpus == pytest.approx(8.0)
    assert money.memory_stranded_share == pytest.approx(1 - money.memory_needed_gib / money.memory_rented_gib)
    assert money.memory_stranded_share > 0.25


def test_a_dearer_layout_says_where_the_difference_comes_from(ask: Ask) -> None:
    # Two replicas on one GPU each, at $3, against one at $2.50: $3.50 more. The price alone makes +$0.50 of one GPU or
    # +$1 of two, on average $0.75; the second replica makes $2.50 or $3, on average $2.75.
    found = why(ask({}, offer(H100, 2.5), offer(L4, 3.0), named="L4 replicas=2 tp=1 pp=1"))

    assert found.verdict == "dearer"
    assert found.comparison is not None
    assert found.comparison.extra_usd_per_hour == 3.5
    bought = {one.name: one.usd_per_hour for one in found.comparison.bought}
    assert bought == pytest.approx(
        {"price per GPU-hour": 0.75, "GPUs per replica": 0.0, "replicas": 2.75, "idle GPUs": 0.0}
    )
    assert sum(one.usd_per_hour for one in found.comparison.spent) == pytest.approx(3.5)
    assert found.comparison.other.replicas == 2


def test_idle_gpus_are_charged_as_such(ask: Ask) -> None:
    # One GPU at $2.50 against a node of two at $5 with one idle.
    found = why(ask({}, offer(H100, 2.5), offer(H100, 5.0, 2), named="2x H100-SXM-80GB tp=1 pp=1 replicas=1"))

    assert found.comparison is not None
    assert {one.name: one.usd_per_hour for one in found.comparison.bought if one.usd_per_hour} == {"idle GPUs": 2.5}
    assert found.comparison.other.gpus_idle == 1


def test_the_plan_itself_and_a_tie_are_told_apart(ask: Ask) -> None:
    same = why(ask({}, offer(H100, 2.5), offer(L4, 2.5), named=H100))
    tie = why(ask({}, offer(H100, 2.5), offer(L4, 2.5), named=L4))

    assert same.verdict == "is_the_plan"
    assert tie.verdict == "same_cost"
    assert tie.comparison is not None
    assert tie.comparison.reason == "the answer has more room for the traffic"


def test_what_is_cheaper_than_a_plan_that_no_longer_stands_is_compared_with_the_answer_of_now(ask: Ask) -> None:
    found = ask({}, offer(H100, 2.5), now=(offer(H100, 2.5), offer(L4, 0.5)), named=L4)

    assert not found.reproduced
    assert why(found).verdict == "is_the_plan"


def test_too_few_gpus_say_what_they_carry_and_how_many_would_do(ask: Ask) -> None:
    found = why(ask({"workload": {"request_rate": 300.0}}, offer(H100, 2.5), offer(L4, 2.0), named="1x L4-24GB tp=1"))

    assert found.verdict == "breaks_rules"
    assert found.nearest is not None
    assert "1 replica carries" in found.nearest.breaks["traffic"]
    assert "are needed" in found.nearest.breaks["traffic"]
    # Less traffic admits it as named; as many replicas as it takes keep the traffic.
    assert found.least_changes[0].rules == ("traffic",)
    assert found.ways_out[0].instead.startswith("in ")


def test_a_missed_target_is_told_with_the_least_one_that_admits_the_layout(ask: Ask) -> None:
    targets = {"targets": {"tpot_ms": 20}, "workload": {"request_rate": 0.1}}
    found = why(ask(targets, offer(H100, 2.5), offer(L4, 0.5), named="L4-24GB", model=MEDIUM))

    assert found.verdict == "breaks_rules"
    assert found.nearest is not None
    assert list(found.nearest.breaks) == ["tpot"]
    assert any(one.rules == ("tpot",) and L4 in one.summary for one in found.least_changes)


@pytest.mark.parametrize(
    ("named", "rule", "flag"),
    [
        ("spot", "term_allowed", "--term on-demand,spot"),
        ("H100-SXM-80GB bolt", "provider_kind_allowed", "--provider-kind hyperscaler,gpu-cloud,own,marketplace"),
        ("H100-SXM-80GB fp8", "weights_allowed", "--weights checkpoint,fp8"),
    ],
)
def test_a_limit_of_the_question_is_named_with_the_flag_that_admits_the_layout(
    ask: Ask, named: str, rule: str, flag: str
) -> None:
    offers = (
        offer(H100, 2.5),
        offer(L4, 3.0, term="spot"),
        offer(H100, 2.4, provider="bolt", provider_kind="marketplace"),
    )
    found = why(ask({}, *offers, named=named))

    assert found.nearest is not None
    assert list(found.nearest.breaks) == [rule]
    assert flag in [one.flag for one in found.least_changes]


def test_a_size_that_heads_do_not_divide_over_names_those_that_would(ask: Ask) -> None:
    # Qwen2.5 0.5B: 14 query heads and 2 KV heads.
    found = why(ask({}, offer(H100, 10.0, 4), named="tp=4"))

    assert found.verdict == "cannot_run"
    assert found.nearest is not None
    assert "14 heads do not divide over tp 4; tp 1, 2" in found.nearest.breaks["heads_divisible"]


def test_tensor_parallel_across_nodes_is_ruled_out_and_says_which_flag_lets_it(ask: Ask) -> None:
    joined = {"network": "infiniband", "network_gbit_per_s": 400.0}
    found = why(ask({}, offer(H100, 2.5, **joined), named="2x H100-SXM-80GB tp=2", model=MEDIUM))

    assert found.verdict == "cannot_run"
    assert found.nearest is not None
    assert list(found.nearest.breaks) == ["tp_scale_up"]
    assert [one.flag for one in found.least_changes] == ["--tp-across-nodes"]


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("A100-SXM-80GB", "no offer of A100-SXM-80GB on that day"),
        ("1 node of 16x H100-SXM-80GB", "no node of 16x H100-SXM-80GB is on offer; there are nodes of 1"),
        ("H100-SXM-80GB spot", "no offer of H100-SXM-80GB with term spot; there are on-demand"),
    ],
)
def test_what_is_not_on_offer_says_which_part_is_not(ask: Ask, named: str, said: str) -> None:
    found = why(ask({}, offer(H100, 2.5), offer(L4, 3.0, term="spot"), named=named))

    assert found.verdict == "not_on_offer"
    assert found.nearest is not None
    assert said in found.nearest.breaks["on_offer"]


def test_a_format_that_the_gpu_does_not_run_is_named(ask: Ask) -> None:
    found = why(ask({}, offer(H100, 2.5), offer(V100, 0.5), named="V100-SXM-16GB bf16"))

    assert found.verdict == "cannot_run"
    assert found.nearest is not None
    assert f"{V100} runs no bf16 weights" in found.nearest.breaks["dtype_supported"]


def test_an_infeasible_plan_is_explained_by_its_conflict_and_has_nothing_to_compare_with(ask: Ask) -> None:
    fields = {"limits": {"budget_usd_per_hour": 1.0}}
    found = ask(fields, offer(H100, 2.5))

    assert found.reproduced
    assert "budget" in [one.rule for one in found.conflict]
    assert found.bounds == ()
    with pytest.raises(QuestionError, match="nothing is feasible"):
        ask(fields, offer(H100, 2.5), named=H100)


def test_on_drawn_catalogs_differences_add_up_and_no_layout_that_keeps_every_rule_is_cheaper(tmp_path: Path) -> None:
    seen = set()
    for seed in range(0, 40, 2):
        drawn = draw(seed)
        plan = solve(drawn.scenario, catalog=drawn.table, today=TODAY)
        if plan.layout is None:
            continue
        path = tmp_path / f"{seed}.json"
        path.write_text(plan.model_dump_json())
        gpus = sorted({one["gpu"] for one in drawn.offers} - {plan.layout.gpu})
        for named in [*gpus[:1], plan.summary]:
            found = explain_plan(path, named, catalog=drawn.table)
            assert found.reproduced, (seed, found.differences)
            seen.add(check_why_not(plan, named, why(found)))
    assert {"is_the_plan", "dearer", "breaks_rules"} <= seen


def check_why_not(plan: Plan, named: str, found: WhyNot) -> str:
    """What holds of any answer to why not; returns its verdict."""
    assert found.verdict not in ("cheaper", "not_on_offer")
    if named == plan.summary:
        assert found.verdict == "is_the_plan"
    listed = {one.gpu: one.extra_usd_per_hour for one in plan.alternatives}
    if found.comparison is not None:
        extra = found.comparison.extra_usd_per_hour
        for parts in (found.comparison.bought, found.comparison.spent):
            assert sum(one.usd_per_hour for one in parts) == pytest.approx(extra, abs=1e-6)
        if found.verdict == "dearer":
            assert extra == pytest.approx(listed[named], abs=1e-6)
    if found.verdict in ("breaks_rules", "cannot_run"):
        assert found.nearest is not None
        assert found.nearest.breaks
        assert listed.get(named) is None
    return found.verdict


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    path.write_text(run("solve", LLAMA_70B, *TRAFFIC, *SPHERON, "--ttft-ms", "1500", "--tpot-ms", "50", "--json").out)
    return path


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("named", [None, "4x A100-SXM-80GB tp=4", "H200-SXM-141GB tp=2", "tp=3"])
def test_the_command_explains_a_plan_within_the_width(plan_file: Path, named: str | None, columns: int) -> None:
    ran = run("explain", str(plan_file), *(() if named is None else ("--why-not", named)), columns=columns)

    assert ran.code == 0, ran.err
    assert "the plan stands" in ran.out
    assert ("Where the money goes" if named is None else "Why not") in ran.out
    assert "…" not in ran.out
    assert max(map(len, ran.out.splitlines())) <= columns


def test_the_command_prints_json(plan_file: Path) -> None:
    found = run("explain", str(plan_file), "--why-not", "4x A100-SXM-80GB tp=4", "--json").json

    assert found["schema_version"] == "1"
    assert found["why_not"]["verdict"] in ("dearer", "breaks_rules", "same_cost", "is_the_plan")


def test_the_command_answers_bad_input_with_2(plan_file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"schema_version": "1"}))

    assert "is not a plan" in run("explain", str(other)).err
    assert run("explain", str(other)).code == 2
    assert run("explain", str(tmp_path / "none.json")).code == 2
    ran = run("explain", str(plan_file), "--why-not", "H300")
    assert ran.code == 2
    assert "expected a layout, such as" in ran.err


def test_the_command_says_how_it_is_used() -> None:
    ran = run("explain", "--help")

    assert ran.code == 0, ran.err
    assert "--json" in ran.out


def test_the_command_reads_what_other_commands_read(plan_file: Path, tmp_path: Path) -> None:
    """With the mark that Windows puts before UTF-8, and in UTF-16."""
    for encoding in ("utf-8-sig", "utf-16"):
        (tmp_path / "plan.json").write_text(plan_file.read_text(), encoding=encoding)
        assert run("explain", str(tmp_path / "plan.json"), "--json").code == 0
