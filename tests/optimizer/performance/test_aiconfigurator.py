"""Tables of aiconfigurator over an object that stands for the package, and over the package where it is installed."""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from catalogs.models import ModelSpec, load_model
from optimizer.errors import QuestionError
from optimizer.performance.backends import aiconfigurator
from optimizer.performance.backends.aiconfigurator import Aiconfigurator, Database, Engine, Found, Installed, Setting
from optimizer.performance.backends.choose import speeds
from optimizer.performance.backends.protocol import SpeedBackend
from optimizer.performance.backends.tabled import NONE, TabledSpeed
from optimizer.performance.speed import SpeedModel
from optimizer.scenario import SpeedSource
from tests.optimizer.performance.conftest import ReplicaTable

Step = Callable[[int, int], float]
THEIRS = "meta-llama/Meta-Llama-3.1-70B"


@dataclass
class FakeEngine:
    """Milliseconds by formula."""

    step: Step

    def predict_decode_latency(self, bs: int, isl: int, osl: int = 2) -> float:
        return self.step(bs, isl)

    def predict_prefill_latency(self, bs: int, isl: int, prefix: int = 0) -> float:
        return 20.0 + 0.1 * isl


@dataclass
class FakeDatabase:
    """Stands for the package: knows one model, and counts the engines that are made."""

    step: Step
    version: str = "0.12.0"
    asked: list[Setting] = field(default_factory=list)

    def models(self) -> Mapping[str, ModelSpec]:
        return {THEIRS: load_model(THEIRS)}

    def engine(self, setting: Setting) -> Engine:
        self.asked.append(setting)
        return FakeEngine(self.step)


def like_ours(scale: float = 1.0) -> Step:
    """About the roofline of 70B in BF16 on two H200, times a factor."""
    return lambda bs, isl: scale * (20.0 + 0.05 * bs + 4e-5 * bs * isl)


def found_for(
    database: Database,
    model: ModelSpec,
    replicas: ReplicaTable,
    *changes: dict[str, object],
    folder: Path | None = None,
) -> tuple[Found, SpeedBackend]:
    table = replicas(*changes)
    base = SpeedModel(model, table)
    found = Aiconfigurator(database, folder).tables(base, model, table, np.ones(len(table), dtype=np.bool_))
    return found, TabledSpeed(base, found.tables, found.setting, found.ranks, moe=model.is_moe)


def test_the_fake_is_what_the_package_has_to_be() -> None:
    database: Database = FakeDatabase(like_ours())

    assert database.version == "0.12.0"


def test_steps_are_the_packages_where_it_covers(llama_70b: ModelSpec, replicas: ReplicaTable) -> None:
    found, speed = found_for(FakeDatabase(like_ours()), llama_70b, replicas)

    assert found.reasons.tolist() == [""]
    assert speed.decode_step_seconds(8, 1024)[0] == pytest.approx(like_ours()(8, 1024) / 1e3)
    assert speed.prefill_seconds(1024)[0] == pytest.approx(0.1224 + speed.fixed_prefill_seconds[0])
    assert speed.sources(8, 1024, 1024).decode.tolist() == ["aiconfigurator"]


def test_a_setting_is_asked_for_once_whatever_its_shape(llama_70b: ModelSpec, replicas: ReplicaTable) -> None:
    """Two rows that differ in what the package does not see are one setting; another split is another."""
    database = FakeDatabase(like_ours())
    found_for(database, llama_70b, replicas, {}, {"network": "ethernet"}, {"tp": 4})

    assert [setting.tp for setting in database.asked] == [2, 4]


def test_requests_are_counted_per_rank_and_stage(llama_70b: ModelSpec, replicas: ReplicaTable) -> None:
    _, speed = found_for(FakeDatabase(like_ours()), llama_70b, replicas, {"pp": 4})

    assert speed.decode_step_seconds(32, 1024)[0] == pytest.approx(like_ours()(8, 1024) / 1e3)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"gpu": "MI300X-192GB"}, "no timings of this GPU"),
        ({"engine": "lmdeploy"}, "no timings of this engine"),
        ({"weights": "fp32"}, "no timings in this precision"),
        ({"pp": 8}, "a replica across nodes"),
        ({"tp": 4, "scale_up_gpus": 1}, "GPUs that are not joined as those it timed"),
    ],
)
def test_what_is_not_covered_says_why(
    change: dict[str, object], reason: str, llama_70b: ModelSpec, replicas: ReplicaTable
) -> None:
    found, speed = found_for(FakeDatabase(like_ours()), llama_70b, replicas, change)

    assert found.reasons.tolist() == [reason]
    assert found.setting.tolist() == [NONE]
    assert speed.sources(1, 100, 100).decode.tolist() == ["roofline"]


def test_a_model_of_another_structure_is_not_covered(replicas: ReplicaTable) -> None:
    found, _ = found_for(FakeDatabase(like_ours()), load_model("Qwen/Qwen3-32B"), replicas)

    assert found.reasons.tolist() == ["no model of this structure"]


def test_a_model_of_the_same_structure_is_covered_under_another_name(replicas: ReplicaTable) -> None:
    found, _ = found_for(FakeDatabase(like_ours()), load_model("deepseek-ai/DeepSeek-R1-Distill-Llama-70B"), replicas)

    assert found.reasons.tolist() == [""]


def test_a_small_dip_is_raised(llama_70b: ModelSpec, replicas: ReplicaTable) -> None:
    """Two requests 10% faster than one, as happens in the package's data: as fast as one, then."""
    ours = like_ours()
    _, speed = found_for(FakeDatabase(lambda bs, isl: ours(bs, isl) * (1.1 if bs == 1 else 1.0)), llama_70b, replicas)

    assert speed.decode_step_seconds(2, 1024)[0] == pytest.approx(ours(1, 1024) * 1.1 / 1e3)


def test_a_table_with_a_large_dip_is_not_used(llama_70b: ModelSpec, replicas: ReplicaTable) -> None:
    found, _ = found_for(FakeDatabase(lambda bs, isl: like_ours(1.5 if bs == 1 else 1.0)(bs, isl)), llama_70b, replicas)

    assert found.reasons.tolist() == ["timings that fall with more work"]


@pytest.mark.parametrize("scale", [0.3, 3.0])
def test_a_table_far_from_our_own_figures_is_not_used(
    scale: float, llama_70b: ModelSpec, replicas: ReplicaTable
) -> None:
    found, _ = found_for(FakeDatabase(like_ours(scale)), llama_70b, replicas)

    assert found.reasons.tolist() == ["timings far from our own figures"]


def test_what_the_package_lacks_it_says_by_raising(llama_70b: ModelSpec, replicas: ReplicaTable) -> None:
    def lacking(bs: int, isl: int) -> float:
        raise RuntimeError("perf data missing")

    found, _ = found_for(FakeDatabase(lacking), llama_70b, replicas)

    assert found.reasons.tolist() == ["no timings in this precision, cache or split"]


def test_tables_are_kept_between_runs_by_version(tmp_path: Path, llama_70b: ModelSpec, replicas: ReplicaTable) -> None:
    first, again, newer = FakeDatabase(like_ours()), FakeDatabase(like_ours(2.0)), FakeDatabase(like_ours(), "0.12.1")
    _, speed = found_for(first, llama_70b, replicas, folder=tmp_path)
    _, kept = found_for(again, llama_70b, replicas, folder=tmp_path)
    found_for(newer, llama_70b, replicas, folder=tmp_path)

    assert (len(first.asked), len(again.asked), len(newer.asked)) == (1, 0, 1)
    assert kept.decode_step_seconds(8, 1024).tolist() == speed.decode_step_seconds(8, 1024).tolist()


def test_a_damaged_file_is_worked_out_again(tmp_path: Path, llama_70b: ModelSpec, replicas: ReplicaTable) -> None:
    found_for(FakeDatabase(like_ours()), llama_70b, replicas, folder=tmp_path)
    (file,) = tmp_path.rglob("*.npz")
    file.write_bytes(file.read_bytes()[:100])
    database = FakeDatabase(like_ours())
    found, _ = found_for(database, llama_70b, replicas, folder=tmp_path)

    assert len(database.asked) == 1
    assert found.reasons.tolist() == [""]


def test_auto_asks_only_for_what_our_calibration_had_no_run_of(
    monkeypatch: pytest.MonkeyPatch, llama_70b: ModelSpec, replicas: ReplicaTable
) -> None:
    """70B on H200 was measured, on B300 it was not."""
    database = FakeDatabase(like_ours(0.6))
    monkeypatch.setattr(aiconfigurator, "installed", lambda: Aiconfigurator(database))
    table = replicas({}, {"gpu": "GB300-NVL72"})
    found = speeds(llama_70b, table, SpeedSource(backend="auto"))
    counted = found.coverage(np.array([0, 0, 1]))

    assert {setting.system for setting in database.asked} == {"gb300"}
    assert counted.candidates == {"aiconfigurator": 1, "roofline": 2}
    assert counted.not_covered == {"measured in our own calibration": 2}


def test_without_the_package_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aiconfigurator, "PACKAGE", "no-such-package-at-all")

    with pytest.raises(QuestionError, match=r"need the package .*pip install 'shardwise\[aiconfigurator\]'"):
        Installed()


@pytest.mark.skipif(importlib.util.find_spec("aiconfigurator_core") is None, reason="aiconfigurator is not installed")
def test_the_package_itself_answers_and_fetches_nothing(
    monkeypatch: pytest.MonkeyPatch, llama_70b: ModelSpec, replicas: ReplicaTable
) -> None:
    """70 GB of FP8 weights over two H200 take at least 7.3 ms to read; ours and the package's are not far apart."""

    def refuse(*_: object) -> None:
        raise AssertionError("the network was asked for")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    found, speed = found_for(Installed(), llama_70b, replicas, {"weights": "fp8"}, {"tp": 3, "gpus_per_node": 6})
    ours = SpeedModel(llama_70b, replicas({"weights": "fp8"}))
    step = speed.decode_step_seconds(1, 1024)[0]

    assert found.reasons.tolist() == ["", "no timings in this precision, cache or split"]
    assert 0.0073 < step < 0.0200
    assert step == pytest.approx(ours.decode_step_seconds(1, 1024)[0], rel=0.4)
