"""Step and prefill times of NVIDIA's aiconfigurator: operators that were timed on real GPUs, summed over the model.

The only file that knows of the package, which is optional (pip install 'shardwise[aiconfigurator]', Linux on x86-64).
A call costs about 0.1 ms, so each setting is put in a table once: kept in the process and, by the package's version, in
the user's cache folder. Nothing is ever fetched: models are the package's own, matched by their structure.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import zipfile
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd
from platformdirs import user_cache_path

from catalogs.errors import CatalogError
from catalogs.gpus import get_gpu
from catalogs.model_parser import parse_config
from catalogs.model_spec import ModelSpec
from optimizer.errors import QuestionError
from optimizer.performance.backends.grid import LogGrid, running_maximum
from optimizer.performance.backends.protocol import Array, Index, SpeedBackend
from optimizer.performance.backends.tabled import NONE, Tables
from optimizer.performance.bands import Bands
from optimizer.performance.efficiency import DEFAULT_ENGINE
from optimizer.user_files import write_whole

Bools = npt.NDArray[np.bool_]
Texts = npt.NDArray[np.object_]

NAME = "aiconfigurator"
PACKAGE = "aiconfigurator-core"
INSTALL = "pip install 'shardwise[aiconfigurator]'"
SUPPORTED = "0.12"

# Our GPUs whose operators it has timed. Others, also of the same family, have another bandwidth or another fabric.
SYSTEMS = {
    "A100-SXM-80GB": "a100_sxm",
    "H100-SXM-80GB": "h100_sxm",
    "H200-SXM-141GB": "h200_sxm",
    "B200-SXM-180GB": "b200_sxm",
    "B300-SXM-288GB": "b300_sxm",
    "GB200-NVL72": "gb200",
    "GB300-NVL72": "gb300",
    "L40S-48GB": "l40s",
    "RTXPRO6000-96GB": "rtx_pro_6000_server",
}
ENGINES = {"vllm": "vllm", "sglang": "sglang", "tensorrt-llm": "trtllm"}
KV_MODES = {"bf16": "bfloat16", "fp16": "bfloat16", "fp8": "fp8"}
# Our weight formats -> dense products, routed experts.
WEIGHT_MODES = {
    "bf16": ("bfloat16", "bfloat16"),
    "fp16": ("bfloat16", "bfloat16"),
    "fp8": ("fp8", "fp8"),
    "int8": ("sq", ""),
    "int4": ("int4_wo", "int4_wo"),
    "nvfp4": ("nvfp4", "nvfp4"),
    "mxfp4": ("bfloat16", "w4a16_mxfp4"),
}
BLOCK_SCALED = ("fp8_block", "fp8_block")

BATCHES = tuple(2**power for power in range(11))  # requests per rank, 1 to 1,024
CONTEXTS = tuple(2**power for power in range(4, 18))  # tokens, 16 to 131,072
GRID = "g1"  # names the grid in file names: another grid is another name
KEY_COLUMNS = (
    "gpu",
    "engine",
    "weights",
    "kv_cache",
    "tp",
    "pp",
    "ep",
    "attention_dp",
    "gpus_per_node",
    "scale_up_gpus",
)
# Where a table has to be near our own figures as a whole; elsewhere single figures that are not are left out.
COMMON = np.outer(np.array(BATCHES) <= 256, (np.array(CONTEXTS) >= 128) & (np.array(CONTEXTS) <= 32_768))
LARGEST_DIP = 0.15  # share by which figures may fall with more work: less is raised, more is no use
FARTHEST = 2.5  # factor from our own figures beyond which they are taken to be outliers
# Logarithms of measured over predicted latency, 10% and 90% quantiles over 907 closed loops of public benchmarks that
# version 0.12.0 covers (`validate speed`, none set aside for being far from our own figures): TPOT was off by 18% on
# average, 12% at the median. Another count, on 653 such runs, had 21% and 15%; the larger mean is what answers say.
LOGS = {"tpot": (-0.173, 0.310), "ttft": (-0.430, 0.569), "e2e": (-0.155, 0.327)}
BANDS = Bands(
    {
        f"{regime} {kind} {size} {quantity}": ends
        for quantity, ends in LOGS.items()
        for regime in ("loop", "static", "full")
        for kind in ("dense", "moe")
        for size in ("small", "large")
    }
)
SAME_VOCABULARY = 0.10  # share by which the LM head of a model of the same layers may differ


@dataclass(frozen=True, order=True)
class Setting:
    """What figures depend on: names are aiconfigurator's own, sizes ours."""

    system: str
    engine: str
    model: str
    dense: str
    experts: str
    kv_cache: str
    tp: int
    pp: int
    ep: int
    attention_dp: int


@dataclass(frozen=True)
class Raw:
    """Milliseconds of one setting, NaN where it has none: of a decode step (batches x contexts) and of a prefill."""

    steps: Array
    prefills: Array


class Engine(Protocol):
    """What is used of an aiconfigurator engine; times are in milliseconds."""

    def predict_decode_latency(self, bs: int, isl: int, osl: int = 2) -> float:
        """Return one decode step of `bs` requests per rank with `isl` tokens of context each."""
        ...

    def predict_prefill_latency(self, bs: int, isl: int, prefix: int = 0) -> float:
        """Return the prefill of `bs` prompts per rank of `isl` tokens."""
        ...


class Database(Protocol):
    """What is used of aiconfigurator: its version, the models it knows, and engines."""

    @property
    def version(self) -> str:
        """The package's version, which its figures change with."""
        ...

    def models(self) -> Mapping[str, ModelSpec]:
        """Return the models it knows the structure of, by its own names."""
        ...

    def engine(self, setting: Setting) -> Engine:
        """Return the engine of a setting; whatever it raises means that the setting is not covered."""
        ...


class Installed:
    """The installed package.

    Raises:
        QuestionError: it is not installed, or is of a version with another interface.
    """

    def __init__(self) -> None:
        try:
            self.version = metadata.version(PACKAGE)
        except metadata.PackageNotFoundError:
            raise QuestionError(f"--performance {NAME} and auto need the package {NAME}: {INSTALL}") from None
        if not self.version.startswith(f"{SUPPORTED}."):
            raise QuestionError(f"--performance {NAME} and auto need {NAME} {SUPPORTED}, got {self.version}: {INSTALL}")
        # It logs each table that it reads as a warning.
        logging.getLogger("aiconfigurator_core").setLevel(logging.CRITICAL)
        self._models: dict[str, ModelSpec] | None = None
        # Tables that no engine holds are read again, at a second a time: the last one of each is held.
        self._held: dict[tuple[str, str], Engine] = {}

    def models(self) -> Mapping[str, ModelSpec]:
        """Return the models whose configs the package brings along; those that our parser cannot read are left out."""
        if self._models is None:
            from aiconfigurator_core.sdk.common import DefaultHFModels  # noqa: PLC0415  slow, and optional

            folder = Path(str(metadata.distribution(PACKAGE).locate_file("aiconfigurator_core/model_configs")))
            self._models = {}
            for file in sorted(folder.glob("*_config.json")):
                name = file.name.removesuffix("_config.json").replace("--", "/")
                if name in DefaultHFModels:
                    with contextlib.suppress(CatalogError, OSError, ValueError):
                        self._models[name] = parse_config(json.loads(file.read_text(encoding="utf-8")), name)
        return self._models

    def engine(self, setting: Setting) -> Engine:
        """Compile the engine of a setting; the first one of a system and engine reads its tables, in about 1.5 s."""
        from aiconfigurator_core.sdk import EngineHandle  # noqa: PLC0415  slow, and optional

        stage = setting.tp * setting.attention_dp
        found: Engine = EngineHandle.compile(
            setting.model,
            setting.system,
            setting.engine,
            backend_version="current",
            tp_size=setting.tp,
            pp_size=setting.pp,
            attention_dp_size=setting.attention_dp,
            moe_tp_size=stage // setting.ep,
            moe_ep_size=setting.ep,
            gemm_quant_mode=setting.dense,
            moe_quant_mode=setting.experts or None,
            kvcache_quant_mode=setting.kv_cache,
        )
        self._held[setting.system, setting.engine] = found
        return found


@dataclass(frozen=True)
class Found:
    """Tables of the settings that are covered and sound, and what became of each row.

    Attributes:
        tables: the figures.
        setting: of each row in the tables, or NONE.
        ranks: requests of a replica per request on the tables' axis, one a row.
        reasons: why a row is not covered, in words; empty where it is.
    """

    tables: Tables
    setting: Index
    ranks: Array
    reasons: Texts


class Aiconfigurator:
    """Tables of an aiconfigurator database, by setting.

    Args:
        database: the package, or what stands for it.
        folder: where tables are kept between runs; nowhere when None.
    """

    def __init__(self, database: Database, folder: Path | None = None) -> None:
        self.database, self.folder = database, folder
        self._raw: dict[Setting, Raw] = {}
        self._read: set[Path] = set()

    def tables(self, base: SpeedBackend, model: ModelSpec, replicas: pd.DataFrame, wanted: Bools) -> Found:
        """Return the tables for a table of replicas, checked for monotonicity and against another backend.

        Args:
            base: the backend to hold them against, of the same rows.
            model: the language model.
            replicas: one candidate a row, as for SpeedModel; `engine` is vLLM where there is no such column.
            wanted: rows to cover; the others get no table and no reason.
        """
        named = [name for name in KEY_COLUMNS if name in replicas]
        of_row = replicas.groupby(named, sort=False, dropna=False).ngroup().to_numpy()
        distinct, first = np.unique(np.where(wanted, of_row, NONE), return_index=True)
        said = np.full(int(of_row.max(initial=-1)) + 1, "", dtype=object)
        settings: dict[int, Setting] = {}
        rows = replicas.iloc[first[distinct != NONE]].to_dict("records")
        known_as = self._known_as(model)
        for key, row in zip(distinct[distinct != NONE].tolist(), rows, strict=True):
            setting = _setting(model, known_as, row)
            if isinstance(setting, Setting):
                settings[key] = setting
            else:
                said[key] = setting
        self._tabulate(settings.values())
        example = dict(zip(distinct.tolist(), first.tolist(), strict=True))
        kept, steps, prefills = [], [], []
        for key, setting in settings.items():
            raw = self._raw[setting]
            found = _checked(raw, base.take(np.array([example[key]], dtype=np.intp)), setting)
            if isinstance(found, str):
                said[key] = found
            else:
                kept.append(key)
                steps.append(found.steps)
                prefills.append(found.prefills)
        number = np.full(len(said), NONE, dtype=np.intp)
        number[kept] = np.arange(len(kept))
        setting_of_row = np.where(wanted, number[of_row], NONE).astype(np.intp)
        tables = Tables(
            NAME,
            LogGrid(BATCHES, CONTEXTS, np.array(steps).reshape(-1, len(BATCHES), len(CONTEXTS)) / 1e3),
            LogGrid([1.0], CONTEXTS, np.array(prefills).reshape(-1, 1, len(CONTEXTS)) / 1e3),
            bands=BANDS,
        )
        ranks = (replicas["pp"] * replicas["attention_dp"]).to_numpy(dtype=np.float64)
        return Found(tables, setting_of_row, ranks, np.where(wanted, said[of_row], ""))

    def _known_as(self, model: ModelSpec) -> str:
        """Return the package's name for a model of the same structure; "" when it has none."""
        known = self.database.models()
        if model.name in known and _same_structure(known[model.name], model):
            return model.name
        alike = [(_far(other, model), name) for name, other in known.items() if _same_structure(other, model)]
        return min(alike)[1] if alike else ""

    def _tabulate(self, settings: Iterable[Setting]) -> None:
        """Fill in the raw figures of these settings, by system and engine: each of those is read in once."""
        asked = sorted(set(settings))
        for setting in asked:
            self._recall(setting)
        missing = [setting for setting in asked if setting not in self._raw]
        for setting in missing:
            self._raw[setting] = _timed(self.database, setting)
        for file in {self._file(setting) for setting in missing}:
            if file is not None:
                _write(file, {one: raw for one, raw in self._raw.items() if self._file(one) == file})

    def _recall(self, setting: Setting) -> None:
        file = self._file(setting)
        if file is not None and file not in self._read:
            self._read.add(file)
            self._raw = _load(file) | self._raw

    def _file(self, setting: Setting) -> Path | None:
        if self.folder is None:
            return None
        name = f"{setting.system} {setting.engine} {setting.model.replace('/', '--')}.npz"
        return self.folder / f"{self.database.version}-{GRID}" / name


@lru_cache(maxsize=1)
def installed() -> Aiconfigurator:
    """Return the installed package's tables, kept in the user's cache folder.

    Raises:
        QuestionError: the package is not installed, or of another version.
    """
    return Aiconfigurator(Installed(), user_cache_path("shardwise") / NAME)


def _setting(model: ModelSpec, known_as: str, row: Mapping[Hashable, Any]) -> Setting | str:
    """Return the setting of a replica in the package's words, or why it has none."""
    gpu, engine, weights = str(row["gpu"]), str(row.get("engine", DEFAULT_ENGINE)), str(row["weights"])
    stage = int(row["tp"]) * int(row["attention_dp"])
    joined = max(int(row["scale_up_gpus"]), 1)
    dense, experts = _modes(model, weights)
    kv_cache = KV_MODES.get(str(row["kv_cache"]), "")
    lacking = {
        "no timings of this GPU": gpu not in SYSTEMS,
        "no timings of this engine": engine not in ENGINES,
        "no model of this structure": not known_as,
        "a replica across nodes": stage * int(row["pp"]) > max(int(row["gpus_per_node"]), joined),
        "GPUs that are not joined as those it timed": stage > joined and get_gpu(gpu).scale_up_kind != "pcie",
        "no timings in this precision": not (dense and kv_cache and (experts or not model.is_moe)),
    }
    if any(lacking.values()):
        return next(why for why, lacks in lacking.items() if lacks)
    return Setting(
        SYSTEMS[gpu], ENGINES[engine], known_as, dense, experts if model.is_moe else "", kv_cache,
        int(row["tp"]), int(row["pp"]), int(row["ep"]), int(row["attention_dp"]),
    )  # fmt: skip


def _modes(model: ModelSpec, weights: str) -> tuple[str, str]:
    """Return the package's names for the formats of dense products and of routed experts; "" where it has none."""
    own = model.checkpoint
    dense, experts = WEIGHT_MODES.get(weights, ("", ""))
    if weights != own.weights:
        return dense, experts
    if weights == "fp8" and own.block_size is not None:
        dense, experts = BLOCK_SCALED
    if model.is_moe and "attention" in own.unquantized:
        dense = "bfloat16"
    other = dict(own.other_formats).get("experts")
    return dense, WEIGHT_MODES[other][1] if other is not None else experts


def _same_structure(one: ModelSpec, other: ModelSpec) -> bool:
    alike = one.hidden_size == other.hidden_size and len(one.layers) == len(other.layers)
    alike = alike and abs(one.vocab_size - other.vocab_size) <= SAME_VOCABULARY * other.vocab_size
    return alike and one.layers == other.layers


def _far(one: ModelSpec, other: ModelSpec) -> int:
    """Say how unlike the checkpoints of two models of one structure are: the nearest is taken."""
    return 0 if one.checkpoint == other.checkpoint else 1 if one.checkpoint.weights == "bf16" else 2


def _timed(database: Database, setting: Setting) -> Raw:
    """Ask the package for every figure of a setting; what it has no data for is NaN."""
    steps, prefills = np.full((len(BATCHES), len(CONTEXTS)), np.nan), np.full(len(CONTEXTS), np.nan)
    with contextlib.suppress(Exception):  # it raises a dozen kinds of its own, each for something that it lacks
        engine = database.engine(setting)
        with contextlib.suppress(Exception):
            for (row, column), _ in np.ndenumerate(steps):
                steps[row, column] = engine.predict_decode_latency(BATCHES[row], CONTEXTS[column])
        with contextlib.suppress(Exception):
            for column, tokens in enumerate(CONTEXTS):
                prefills[column] = engine.predict_prefill_latency(1, tokens)
    return Raw(*(np.where(np.isfinite(figures) & (figures > 0.0), figures, np.nan) for figures in (steps, prefills)))


def _checked(raw: Raw, ours: SpeedBackend, setting: Setting) -> Raw | str:
    """Return figures made monotone, or why they are not to be used.

    Args:
        raw: the figures, ms.
        ours: the backend to hold them against, of one row.
        setting: theirs.
    """
    if np.isnan(raw.steps).all():
        return "no timings in this precision, cache or split"
    (steps,), (dip,) = running_maximum(raw.steps[np.newaxis])
    if dip > LARGEST_DIP:
        return "timings that fall with more work"
    per = setting.pp * setting.attention_dp
    batch, context = (axis.ravel() for axis in np.meshgrid(np.array(BATCHES) * per, CONTEXTS, indexing="ij"))
    many = ours.take(np.zeros(len(batch), dtype=np.intp))
    theirs = many.decode_step_seconds(batch, context).reshape(steps.shape) * 1e3
    far = np.abs(np.log(steps / theirs)) > np.log(FARTHEST)
    if (far & COMMON).any():
        return "timings far from our own figures"
    steps = np.where(far, np.nan, steps)
    (((prefills,),), (dip,)) = running_maximum(raw.prefills[np.newaxis, np.newaxis])
    long = ours.take(np.zeros(len(CONTEXTS), dtype=np.intp))
    alone = (long.prefill_seconds(CONTEXTS) - long.fixed_prefill_seconds) * 1e3
    far = np.abs(np.log(prefills / alone)) > np.log(FARTHEST)
    if dip > LARGEST_DIP or (far & COMMON[0]).any():
        far[:] = True
    return Raw(steps, np.where(far, np.nan, prefills))


def _load(file: Path) -> dict[Setting, Raw]:
    """Read kept figures; none where there are none that can be read."""
    try:
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as kept:
            settings = [Setting(**fields) for fields in json.loads(str(kept["settings"]))]
            steps, prefills = kept["steps"], kept["prefills"]
    except (OSError, ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile):
        return {}
    shape = (len(settings), len(BATCHES), len(CONTEXTS))
    if steps.shape != shape or prefills.shape != (shape[0], shape[2]):
        return {}
    return {one: Raw(*figures) for one, *figures in zip(settings, steps, prefills, strict=True)}


def _write(file: Path, figures: Mapping[Setting, Raw]) -> None:
    """Keep figures whole or not at all; where they cannot be kept they are worked out again."""
    content = io.BytesIO()
    np.savez(
        content,
        settings=np.array(json.dumps([asdict(setting) for setting in figures])),
        steps=np.array([raw.steps for raw in figures.values()]),
        prefills=np.array([raw.prefills for raw in figures.values()]),
    )
    with contextlib.suppress(OSError):
        write_whole(file, content.getvalue())
