"""Tables that users measured: they give back their own points, answer only between them, and say what is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalogs.models import ModelSpec
from optimizer.errors import QuestionError
from optimizer.performance.backends.choose import measured_table, speeds
from optimizer.performance.backends.measured import read_measured
from optimizer.performance.backends.protocol import SpeedBackend
from optimizer.performance.speed import SpeedModel
from optimizer.scenario import SpeedSource
from tests.optimizer.performance.conftest import ReplicaTable

HEAD = "gpu,model,weights,tp,batch,context_tokens,decode_step_ms,input_tokens,prefill_ms"
MODEL = "meta-llama/Meta-Llama-3.1-70B"
REPLICA = f"H200-SXM-141GB,{MODEL},bf16,2"
STEPS = ("1,1000,20,,", "8,1000,22,,", "64,1000,30,,", "1,8000,21,,", "64,8000,60,,")


def file_of(folder: Path, *rows: str, head: str = HEAD, replica: str = REPLICA) -> Path:
    path = folder / "steps.csv"
    path.write_text("\n".join([head, *(f"{replica},{row}" for row in rows)]) + "\n", encoding="utf-8")
    return path


def backend(path: Path, model: ModelSpec, replicas: ReplicaTable, *changes: dict[str, object]) -> SpeedBackend:
    asked = SpeedSource(table=path)
    return speeds(model, replicas(*changes), asked, measured_table(asked)).backend


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return file_of(tmp_path, *STEPS, ",,,1000,100", ",,,8000,900")


def test_points_are_given_back(table: Path, llama_70b: ModelSpec, replicas: ReplicaTable) -> None:
    speed = backend(table, llama_70b, replicas)

    for batch, context, step in ((1, 1000, 20), (8, 1000, 22), (64, 1000, 30), (1, 8000, 21), (64, 8000, 60)):
        assert speed.decode_step_seconds(batch, context)[0] == pytest.approx(step / 1e3, rel=1e-12)
        assert speed.sources(batch, context, 1000).decode.tolist() == ["table"]
    assert speed.prefill_seconds(1000)[0] == pytest.approx(0.1, rel=1e-12)


def test_between_points_logarithms_are_linear(table: Path, llama_70b: ModelSpec, replicas: ReplicaTable) -> None:
    """8 is half way from 1 to 64: at 8,000 tokens sqrt(21 x 60) ms, and at sqrt(1000 x 8000) the mean of 22 with it."""
    speed = backend(table, llama_70b, replicas)
    long = np.sqrt(21 * 60)

    assert speed.decode_step_seconds(8, 8000)[0] == pytest.approx(long / 1e3)
    assert speed.decode_step_seconds(8, np.sqrt(8e6))[0] == pytest.approx(np.sqrt(22 * long) / 1e3)


@pytest.mark.parametrize(("batch", "context"), [(65, 1000), (8, 900), (8, 8100)])
def test_beyond_the_points_our_own_model_answers(
    batch: float, context: float, table: Path, llama_70b: ModelSpec, replicas: ReplicaTable
) -> None:
    """It is held at the table's edge where it would otherwise fall with more work."""
    speed, ours = backend(table, llama_70b, replicas), SpeedModel(llama_70b, replicas())
    edge = speed.decode_step_seconds(min(batch, 64), np.clip(context, 1000, 8000))[0]
    alone = ours.decode_step_seconds(batch, context)[0]

    assert speed.sources(batch, context, 1000).decode.tolist() == ["roofline"]
    assert speed.decode_step_seconds(batch, context)[0] == (min if context < 1000 else max)(alone, edge)


@pytest.mark.parametrize("change", [{"tp": 4}, {"weights": "fp8"}, {"gpu": "H100-SXM-80GB"}, {"pp": 2}])
def test_another_replica_is_not_answered_for(
    change: dict[str, object], table: Path, llama_70b: ModelSpec, replicas: ReplicaTable
) -> None:
    speed, ours = backend(table, llama_70b, replicas, change), SpeedModel(llama_70b, replicas(change))

    assert speed.sources(8, 1000, 1000).decode.tolist() == ["roofline"]
    assert speed.decode_step_seconds(8, 1000).tolist() == ours.decode_step_seconds(8, 1000).tolist()


def test_a_named_cache_answers_before_an_open_one(tmp_path: Path, llama_70b: ModelSpec, replicas: ReplicaTable) -> None:
    head = "gpu,model,weights,tp,kv_cache,batch,context_tokens,decode_step_ms"
    path = file_of(tmp_path, "fp8,1,1000,18", ",1,1000,20", head=head)
    speed = backend(path, llama_70b, replicas, {"kv_cache": "fp8"}, {})

    assert speed.decode_step_seconds(1, 1000).tolist() == pytest.approx([0.018, 0.020])


def test_concurrency_lengths_and_tpot_are_other_names_of_the_same(
    tmp_path: Path, llama_70b: ModelSpec, replicas: ReplicaTable
) -> None:
    """1,000 in and 500 out are 1,250 tokens of context on average."""
    head = "gpu,model,weights,tp,concurrency,input_tokens,output_tokens,tpot_ms"
    speed = backend(file_of(tmp_path, "4,1000,500,25", head=head), llama_70b, replicas)

    assert speed.decode_step_seconds(4, 1250)[0] == pytest.approx(0.025)


def test_a_point_measured_twice_is_the_mean(tmp_path: Path, llama_70b: ModelSpec, replicas: ReplicaTable) -> None:
    speed = backend(file_of(tmp_path, "1,1000,20,,", "1,1000,22,,"), llama_70b, replicas)

    assert speed.decode_step_seconds(1, 1000)[0] == pytest.approx(0.021)


def test_a_table_read_again_is_the_same_object_until_its_file_changes(table: Path) -> None:
    first = read_measured(table)
    assert read_measured(table) is first

    table.write_text(table.read_text(encoding="utf-8") + f"{REPLICA},128,8000,70,,\n", encoding="utf-8")
    assert read_measured(table) is not first


@settings(max_examples=40, deadline=None)
@given(
    points=st.dictionaries(
        st.tuples(st.integers(1, 512), st.integers(1, 100_000)), st.floats(0.001, 1.0), min_size=1, max_size=12
    )
)
def test_any_table_whose_figures_grow_with_work_gives_back_its_points(
    points: dict[tuple[int, int], float],
    tmp_path_factory: pytest.TempPathFactory,
    llama_70b: ModelSpec,
    replicas: ReplicaTable,
) -> None:
    """A point's figure is the sum of what is drawn for all points of no more work, so figures grow with work."""
    grown = {
        (batch, context): 1000 * sum(part for (b, c), part in points.items() if b <= batch and c <= context)
        for batch, context in points
    }
    rows = [f"{batch},{context},{step!r},," for (batch, context), step in grown.items()]
    speed = backend(file_of(tmp_path_factory.mktemp("grown"), *rows), llama_70b, replicas)

    for (batch, context), step in grown.items():
        assert speed.decode_step_seconds(batch, context)[0] == pytest.approx(step / 1e3, rel=1e-9)
        assert speed.sources(batch, context, 1).decode.tolist() == ["table"]


@pytest.mark.parametrize(
    ("rows", "head", "said"),
    [
        (("0,1000,20,,",), HEAD, "line 2, column batch: got '0'; expected a whole number of at least 1"),
        (("1,1000,-3,,",), HEAD, "line 2, column decode_step_ms: got '-3'; expected a number above 0"),
        (("1,1000,nan,,",), HEAD, "line 2, column decode_step_ms: got 'nan'; expected a number above 0"),
        (("1,,20,,",), HEAD, "line 2, column context_tokens: is missing; expected the context of the step"),
        ((",1000,20,,",), HEAD, "line 2, column batch: is missing; expected the requests at once"),
        (("1,1000,20,,100",), HEAD, "line 2, column input_tokens: is missing; expected the length of the prompt"),
        (("1,1000,,,",), HEAD, "line 2: no figure; expected decode_step_ms, prefill_ms or both"),
        (("1,1000,20",), HEAD, "line 2: 7 values; expected 9, as in the header"),
        ((), HEAD, "has no rows"),
        (("1",), HEAD.replace("batch", "batchs"), "line 1: unknown column 'batchs'; did you mean batch?"),
        (("1,1",), f"{HEAD},concurrency", "line 1: column 'batch' is given twice (also as concurrency)"),
        (("1",), "gpu,model,weights,batch,decode_step_ms", "line 1: no column tp; needed: gpu, model, weights, tp"),
        (("1",), "gpu,model,weights,tp,batch", "line 1: no column of figures"),
        (
            ("1,1000,30,,", "2,1000,20,,"),
            HEAD,
            "line 3, column decode_step_ms: got 20, and line 2, of no more work, has 30; expected figures that grow",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(rows: tuple[str, ...], head: str, said: str, tmp_path: Path) -> None:
    path = file_of(tmp_path, *rows, head=head)

    with pytest.raises(QuestionError) as error:
        read_measured(path)
    assert str(error.value).startswith(f"{path}: ")
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("replica", "said"),
    [
        (f"H2OO,{MODEL},bf16,2", "line 2, column gpu: "),
        (f"H200-SXM-141GB,{MODEL},bf17,2", "line 2, column weights: got 'bf17'; expected one of fp32, bf16"),
        (f"H200-SXM-141GB,{MODEL},bf16,two", "line 2, column tp: got 'two'; expected a whole number from 1 to 1,024"),
        ("H200-SXM-141GB,,bf16,2", "line 2, column model: is missing; expected a value in every row"),
    ],
)
def test_a_replica_that_is_none_is_refused(replica: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(QuestionError) as error:
        read_measured(file_of(tmp_path, STEPS[0], replica=replica))
    assert said in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(QuestionError, match=r"none\.csv: cannot be read: No such file"):
        read_measured(tmp_path / "none.csv")
