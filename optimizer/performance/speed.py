"""Speed: seconds of a decode step and of a prefill for a whole table of candidate replicas at once.

    decode step   matrix products (reading weights, or computing when the batch is large) + attention over the KV cache
                  + collectives + pipeline hops + launches + cost per request
    prefill       the same terms for all tokens of a prompt, in chunks

Every term is non-decreasing in the batch and in the context, and costs no more per request in a larger batch.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from catalogs.gpus import get_gpu
from catalogs.model_spec import ModelSpec
from optimizer.performance.backends.protocol import ROOFLINE, Sources
from optimizer.performance.collectives import Link, curve_seconds, interpolate, send_coefficients
from optimizer.performance.efficiency import (
    DEFAULT_ENGINE,
    ONE_SIDED,
    Efficiencies,
    Setting,
    architecture_key,
    calibration_group,
    load_efficiencies,
    newest_era,
)
from optimizer.performance.rates import Rates, gpu_rates
from optimizer.performance.work import ACTIVATION_BYTES, Splits, Work, pass_work

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp]

# Tokens that engines prefill at once by default (vLLM's max_num_batched_tokens on data-center GPUs, SGLang's
# chunked_prefill_size); longer prompts go through in chunks.
CHUNK_TOKENS = 8192.0

# Grouped products work in tiles of 16 to 128 tokens: each expert computes about half a tile that no token fills.
EMPTY_ROWS = (8.0, 64.0)

_SPLIT_COLUMNS = ("weights", "kv_cache", "tp", "pp", "ep", "attention_dp")
_LINK_COLUMNS = ("gpu", "tp", "attention_dp", "gpus_per_node", "scale_up_gpus", "network", "network_gbit_per_s", "ep")


@dataclass(frozen=True)
class _Experts:
    """A shape of MoE layer: seconds to read all its experts, to compute a token, and how tokens spread over them.

    `share` is the share of the experts that a token uses.
    """

    read: Array
    compute: Array
    log_miss: float
    spread: Array
    share: float


@dataclass(frozen=True)
class _Scores:
    """Attention with one window: seconds per token of context to read and to score, and per pair of a prompt."""

    window: float
    read: Array
    decode: Array
    prefill: Array


@dataclass(frozen=True)
class _Exchange:
    """One kind of collective: its curve per row, how often per pass, and bytes per token."""

    curves: Array
    rows: Index
    count: Array
    bytes_per_token: Array | float

    def seconds(self, tokens: Array) -> Array:
        message = np.asarray(tokens * self.bytes_per_token, dtype=np.float64)
        return np.asarray(self.count * interpolate(self.curves, self.rows, message))

    def take(self, index: Index) -> _Exchange:
        """Return it for some of the rows."""
        size = self.bytes_per_token
        return _Exchange(
            self.curves, self.rows[index], self.count[index], size[index] if isinstance(size, np.ndarray) else size
        )


class SpeedModel:
    """Times of every replica in a table, vectorized over its rows.

    Args:
        model: the language model.
        replicas: one candidate replica a row, with columns gpu, weights, kv_cache (names), tp, pp, ep, attention_dp,
            gpus_per_node, fabric, scale_up_gpus, network, network_gbit_per_s (NaN when unknown). A column
            `alike_prompts` marks replicas whose requests all ask the same, as static benchmarks do: every token of a
            batch then goes to the same experts.
        engine: serving engine whose fitted level applies, by the era of today; columns `engine`, `era` (see
            `engine_era`) and `release` of the table say it per row instead. One never measured has the common level.
        efficiencies: coefficients to use instead of the bundled ones.
        coefficients: values of every coefficient per row, to use instead of those that `efficiencies` gives (for fits).

    Attributes:
        kind: "fitted" or "borrowed" per row: whether its GPU's own family was measured.
        fixed_prefill_seconds: cost of a request before its first token that does not depend on its prompt.
        width: factor per row on the logarithms of its error band.
        waves: coefficients of closed-loop benchmarks per row, by name (see `COEFFICIENTS`).
    """

    def __init__(
        self,
        model: ModelSpec,
        replicas: pd.DataFrame,
        *,
        engine: str = DEFAULT_ENGINE,
        efficiencies: Efficiencies | None = None,
        coefficients: Mapping[str, Array] | None = None,
    ) -> None:
        efficiencies = efficiencies or load_efficiencies()
        self.rows = len(replicas)
        first, of_split = _unique_rows(replicas, _SPLIT_COLUMNS)
        splits = _splits(replicas.iloc[first])
        work = pass_work(model, splits)
        settings, of_setting = _settings(model, replicas, engine)
        kinds = [efficiencies.kinds.get(calibration_group(get_gpu(setting.gpu)), "borrowed") for setting in settings]
        self.kind: npt.NDArray[np.str_] = np.array(kinds or ["fitted"], dtype=np.str_)[of_setting]
        self.moe, self.bands = model.is_moe, efficiencies.bands
        unmeasured = [efficiencies.unmeasured(setting) for setting in settings] if efficiencies.bands.logs else []
        self.width = np.array([self.bands.width_of(parts) for parts in unmeasured] or [1.0] * len(settings))[of_setting]
        if coefficients is None:
            coefficients, names, of_rate = efficiencies.table(settings), [s.gpu for s in settings], of_setting
        else:
            names, of_rate = [str(name) for name in replicas["gpu"]], np.arange(self.rows, dtype=np.intp)
        formats = {*work.rank_flop, *work.head_flop, *work.shared_flop}
        formats.update(*(group.flop_per_token for group in work.experts))
        rates = gpu_rates(names, sorted(formats), coefficients)
        self._pp, self._dp = splits.pp[of_split], splits.attention_dp[of_split]
        alike = replicas["alike_prompts"].to_numpy() if "alike_prompts" in replicas else np.zeros(self.rows, np.bool_)
        self._set_matrices(work, of_split, rates, of_rate, efficiencies, alike)
        self._set_attention(work, of_split, rates, of_rate)
        self._set_overheads(work, of_split, rates, of_rate)
        self._set_exchanges(model, work, of_split, replicas)
        self._communication = coefficients["communication"][of_rate]
        self.waves = {name: coefficients[name][of_rate] for name in sorted(ONE_SIDED)}

    def take(self, index: Index) -> SpeedModel:
        """Return the model of some of the rows, in the order given, without working anything out again."""
        part = copy.copy(self)
        for name, value in vars(self).items():
            setattr(part, name, _take(value, index))
        part.rows = len(index)
        return part

    @property
    def all_reduces_per_pass(self) -> Array:
        """All-reduces over the tensor-parallel group in one forward pass, per row (2 a layer; 0 on one GPU)."""
        return self._reductions.count

    @property
    def calibrated(self) -> npt.NDArray[np.bool_]:
        """Per row, whether its GPU's own family was measured (else its figures are borrowed)."""
        return np.asarray(self.kind == "fitted")

    def error_band(self, quantity: str, batch: npt.ArrayLike, *, regime: str = "loop") -> tuple[Array, Array]:
        """Return factors on a prediction between which 80% of measured runs lie, per row (see `Bands.interval`)."""
        return self.bands.interval(quantity, batch, self.width, moe=self.moe, regime=regime)

    def at_confidence(self, quantity: str, confidence: float) -> Array:
        """Return per row the factor that a latency stays below with this probability (see `Bands.factor_at`)."""
        return self.bands.factor_at(quantity, confidence, self.width, moe=self.moe)

    def sources(self, batch: npt.ArrayLike, context_tokens: npt.ArrayLike, input_tokens: npt.ArrayLike) -> Sources:
        """Return which backend gives steps and prefills: this one, whatever the load (see SpeedBackend)."""
        return Sources(*(np.full(self.rows, ROOFLINE) for _ in Sources._fields))

    def decode_step_seconds(self, batch: npt.ArrayLike, context_tokens: npt.ArrayLike) -> Array:
        """Return the seconds of one decode step, which is the time between two tokens of one request.

        Args:
            batch: requests in flight on the whole replica (at least 1; less counts as 1), a number or one a row.
            context_tokens: tokens of context that each request attends to, a number or one a row.
        """
        total: Array = sum(self.decode_terms(batch, context_tokens).values(), np.zeros(self.rows))
        return total

    def decode_breakdown(self, row: int, batch: float, context_tokens: float) -> dict[str, float]:
        """Return the seconds of one row's decode step by cause; they sum to the step."""
        return {cause: float(value[row]) for cause, value in self.decode_terms(batch, context_tokens).items()}

    def prefill_seconds(self, input_tokens: npt.ArrayLike) -> Array:
        """Return the seconds until the first token of one request alone on the replica, pipeline fill included."""
        tokens = self._column(input_tokens)
        chunk = np.minimum(tokens, CHUNK_TOKENS)
        chunks = tokens / chunk
        linear = _roofline(self._weight_read, self._product_seconds(chunk, chunk))
        experts = sum(self._experts_seconds(chunk))
        one_chunk = linear + experts + self._exchange_seconds(chunk) + self._launch
        total = chunks * one_chunk + self._head + self._prompt_scores(tokens)
        # Chunk after chunk through the stages: (n + p - 1) of n p stage times; hops between stages on top.
        filled = total * (1.0 / self._pp + (self._pp - 1.0) / (chunks * self._pp))
        return np.asarray(filled + self._hop_seconds(chunk) + self._step + self.fixed_prefill_seconds)

    def prefill_occupancy_seconds(self, input_tokens: npt.ArrayLike) -> Array:
        """Return how long one request's prefill keeps the replica's bottleneck busy.

        Prompts share steps with each other and with decode, so reading weights and launches cost nothing extra: what
        counts is computing and exchanging, over the stages and attention ranks that work in parallel.
        """
        tokens = self._column(input_tokens)
        per_rank = tokens / self._dp
        full = np.full(self.rows, CHUNK_TOKENS)
        exchanges = self._exchange_seconds(full / self._dp) * tokens / CHUNK_TOKENS
        compute = self._product_seconds(per_rank, tokens) + self._head / self._dp
        experts = sum(
            (group.compute * tokens * (1.0 + EMPTY_ROWS[1] / group.share / CHUNK_TOKENS) for group in self._experts),
            np.zeros(self.rows),
        )
        busy = (compute + experts + self._prompt_scores(tokens) / self._dp + exchanges) / self._pp
        return np.asarray(busy * self._sharing)

    def decode_terms(self, batch: npt.ArrayLike, context_tokens: npt.ArrayLike) -> dict[str, Array]:
        """Return the terms of a decode step by cause."""
        # A stage works on one micro-batch while the others are in the other stages.
        in_step = np.maximum(self._column(batch) / self._pp, 1.0)
        on_rank = np.maximum(in_step / self._dp, 1.0)
        context = self._column(context_tokens)
        products = (self._product_seconds(on_rank, in_step) + self._head * on_rank) / self._decode_share
        expert_read, expert_excess = self._experts_seconds(in_step)
        return {
            "weights": self._weight_read + expert_read,
            "compute": _roofline(self._weight_read, products) - self._weight_read + expert_excess,
            "kv_cache": on_rank * self._context_scores(context),
            "all_reduce": self._exchange_seconds(on_rank),
            "logits": self._logits.seconds(on_rank) * self._communication,
            "pipeline": self._hop_seconds(on_rank),
            "launch": self._launch + self._step,
            "sequences": self._sequence * on_rank,
        }

    def _product_seconds(self, on_rank: Array, in_step: Array) -> Array:
        """Compute of dense matrix products: `on_rank` tokens through attention's, `in_step` through shared ones."""
        return self._rank_compute * on_rank + self._shared_compute * in_step

    def _experts_seconds(self, tokens: Array) -> tuple[Array, Array]:
        """Routed experts: seconds to read those that `tokens` hit, and what computing adds to that."""
        read, excess = np.zeros(self.rows), np.zeros(self.rows)
        for group in self._experts:
            hit = -np.expm1(group.log_miss * (1.0 + self._distinct * (tokens - 1.0)))
            # The busiest of the ranks that hold whole experts: mean plus deviations of a binomial.
            busiest = np.minimum(1.0, hit + group.spread * np.sqrt(hit * (1.0 - hit)))
            group_read = group.read * busiest
            read += group_read
            # Tiles are as tall as an expert's tokens call for; half of the last one is empty.
            tokens_per_expert = tokens * group.share / hit
            empty = np.clip(0.5 * tokens_per_expert, *EMPTY_ROWS) / group.share
            computing = group.compute * (tokens + empty * hit)
            excess += _roofline(group_read, computing) - group_read
        return read, excess

    def _context_scores(self, context: Array) -> Array:
        """Attention of one request's new token over its context, plus its recurrent state."""
        total = self._state
        for scores in self._scores:
            total = total + np.minimum(context, scores.window) * np.maximum(scores.read, scores.decode)
        return total

    def _prompt_scores(self, tokens: Array) -> Array:
        """Attention of a prompt over itself: half the square of its length, or a band as wide as the window."""
        total = np.zeros(self.rows)
        for scores in self._scores:
            seen = np.minimum(tokens, scores.window)
            total += scores.prefill * seen * (tokens - 0.5 * seen)
        return total

    def _exchange_seconds(self, on_rank: Array) -> Array:
        """Collectives of one pass, the gathering of logits left out."""
        total = self._reductions.seconds(on_rank)
        if self._wide is not None:
            total = total + self._wide.seconds(on_rank)
        return np.asarray(total * self._communication)

    def _hop_seconds(self, tokens: Array) -> Array:
        """Messages between pipeline stages."""
        return np.asarray((self._pp - 1.0) * (self._hop_latency + self._hop_per_token * tokens))

    def _column(self, value: npt.ArrayLike) -> Array:
        return np.broadcast_to(np.asarray(value, dtype=np.float64), (self.rows,))

    def _set_matrices(
        self,
        work: Work,
        of_split: Index,
        rates: Rates,
        of_rate: Index,
        efficiencies: Efficiencies,
        alike: npt.NDArray[np.bool_],
    ) -> None:
        def compute(flop: dict[str, Array]) -> Array:
            return sum((flop[name][of_split] * rates.flop[name][of_rate] for name in flop), np.zeros(self.rows))

        self._weight_read = work.dense_bytes[of_split] * rates.weight_read[of_rate]
        self._rank_compute = compute(work.rank_flop)
        self._shared_compute = compute(work.shared_flop)
        self._head = compute(work.head_flop)
        self._decode_share = rates.coefficients["compute_decode"][of_rate]
        grouped = rates.coefficients["compute_experts"][of_rate]
        self._distinct = np.where(alike, 0.0, np.minimum(rates.coefficients["distinct_experts"][of_rate], 1.0))
        self._experts = []
        for group in work.experts:
            ranks = group.ranks[of_split]
            uneven = np.where(ranks > 1, efficiencies.routing.imbalance, 1.0)
            self._experts.append(
                _Experts(
                    read=group.bytes_held[of_split] * rates.expert_read[of_rate],
                    compute=compute(group.flop_per_token) * uneven / grouped,
                    log_miss=float(np.log1p(-min(group.per_token / group.experts, 1.0 - 1e-9))),
                    spread=np.sqrt(2.0 * np.log(ranks) * ranks / group.experts),
                    share=group.per_token / group.experts,
                )
            )

    def _set_attention(self, work: Work, of_split: Index, rates: Rates, of_rate: Index) -> None:
        kv_read, flop = rates.kv_read[of_rate], rates.attention_flop[of_rate]
        self._state = work.state_bytes[of_split] * kv_read
        self._scores = [
            _Scores(
                window=np.inf if scores.window is None else float(scores.window),
                read=scores.bytes_per_token[of_split] * kv_read,
                decode=scores.decode_flop_per_token[of_split] * flop,
                prefill=scores.prefill_flop_per_pair[of_split] * flop,
            )
            for scores in work.scores
        ]

    def _set_overheads(self, work: Work, of_split: Index, rates: Rates, of_rate: Index) -> None:
        coefficients = {name: values[of_rate] for name, values in rates.coefficients.items()}
        self._launch = (
            work.layers[of_split] * coefficients["layer_seconds"]
            + work.moe_layers[of_split] * coefficients["moe_layer_seconds"]
            + work.state_layers[of_split] * coefficients["state_layer_seconds"]
            + work.block_scaled_layers[of_split] * coefficients["block_scale_layer_seconds"]
        )
        self._step = self._pp * coefficients["step_seconds"]
        self._sequence = coefficients["sequence_seconds"]
        self._sharing = coefficients["prefill_sharing"]
        self.fixed_prefill_seconds: Array = coefficients["prefill_seconds"]

    def _set_exchanges(self, model: ModelSpec, work: Work, of_split: Index, replicas: pd.DataFrame) -> None:
        first, rows = _unique_rows(replicas, _LINK_COLUMNS)
        links = replicas.iloc[first]
        groups = _links(links, links["tp"].to_numpy(dtype=np.float64))
        token_bytes = model.hidden_size * ACTIVATION_BYTES
        reduce = np.array([curve_seconds("all_reduce", link)[0] for link in groups])
        gather = np.array([curve_seconds("all_gather", link)[0] for link in groups])
        self._reductions = _Exchange(reduce, rows, work.reductions[of_split], token_bytes)
        once = np.ones(self.rows)
        self._logits = _Exchange(gather, rows, once, model.vocab_size * ACTIVATION_BYTES)
        hops = np.array([send_coefficients(link) for link in groups]).reshape(-1, 2)
        self._hop_latency = hops[rows, 0]
        self._hop_per_token = hops[rows, 1] * token_bytes
        self._wide = self._wide_exchange(links, rows, work, of_split, token_bytes)

    def _wide_exchange(
        self, links: pd.DataFrame, rows: Index, work: Work, of_split: Index, token_bytes: float
    ) -> _Exchange | None:
        """Exchange around the MLPs of attention-DP replicas: tokens to the GPUs that compute them, and back.

        Whole experts: all-to-all of each token to at most its experts' GPUs, in 8 bits there and 16 back. Sliced ones:
        gather every rank's tokens, and scatter the sums back.
        """
        if not (links["attention_dp"].to_numpy() > 1).any():
            return None
        dp = links["attention_dp"].to_numpy(dtype=np.float64)
        ranks = links["tp"].to_numpy(dtype=np.float64) * dp
        whole = links["ep"].to_numpy() > 1
        curves = np.array(
            [
                curve_seconds("all_to_all" if spread else "all_gather", link)[0]
                for link, spread in zip(_links(links, ranks), whole, strict=True)
            ]
        )
        copies = np.minimum(max((group.per_token for group in work.experts), default=1), ranks)
        size = np.where(whole, 0.75 * copies, dp) * token_bytes
        return _Exchange(curves, rows, 2.0 * work.wide_exchanges[of_split], size[rows])


def _take(value: Any, index: Index) -> Any:
    """Take rows of what a speed model is made of: arrays by row, records of them, and plain numbers."""
    if isinstance(value, np.ndarray):
        return value[index]
    if isinstance(value, list):
        return [_take(part, index) for part in value]
    if isinstance(value, dict):
        return {name: _take(part, index) for name, part in value.items()}
    if isinstance(value, _Exchange):
        return value.take(index)
    if isinstance(value, (_Experts, _Scores)):
        return replace(value, **{part.name: _take(getattr(value, part.name), index) for part in fields(value)})
    return value


def _roofline(read: Array, compute: Array) -> Array:
    """Seconds of work that reads and computes at once.

    The larger of the two where they differ much; where they are alike neither hides all of the other: timings of
    matrix products over their length follow the root of the sum of squares.
    """
    return np.sqrt(read * read + compute * compute)


def _links(rows: pd.DataFrame, ranks: Array) -> list[Link]:
    """The link of a group of `ranks` GPUs of each row."""
    names = ("gpu", "gpus_per_node", "scale_up_gpus", "network", "network_gbit_per_s")
    columns = [rows[name].tolist() for name in names]
    columns[-1] = [math.nan if math.isnan(rate) else rate for rate in columns[-1]]  # one NaN: links compare equal
    return [
        Link(str(gpu), int(count), int(in_node), int(in_domain), str(network), float(rate))
        for count, gpu, in_node, in_domain, network, rate in zip(ranks, *columns, strict=True)
    ]


def _settings(model: ModelSpec, replicas: pd.DataFrame, engine: str) -> tuple[list[Setting], Index]:
    """Return what the coefficients depend on: the distinct settings, and the setting of each row."""
    columns = ["gpu", "weights"] + [name for name in ("engine", "era", "release") if name in replicas]
    first, of_setting = _unique_rows(replicas, tuple(columns))
    rows = replicas.iloc[first]
    engines = [str(name) for name in rows["engine"]] if "engine" in replicas else [engine] * len(rows)
    eras = [str(era) for era in rows["era"]] if "era" in replicas else [newest_era(name) for name in engines]
    architecture = architecture_key(model)
    releases = [str(name) for name in rows["release"]] if "release" in replicas else [""] * len(rows)
    values = zip(rows["gpu"], engines, eras, rows["weights"], releases, strict=True)
    settings = [
        Setting(str(gpu), name, era, architecture, str(kept), release) for gpu, name, era, kept, release in values
    ]
    return settings, of_setting


def _splits(rows: pd.DataFrame) -> Splits:
    return Splits(
        weights=[str(name) for name in rows["weights"]],
        kv_cache=[str(name) for name in rows["kv_cache"]],
        tp=rows["tp"].to_numpy(dtype=np.float64),
        pp=rows["pp"].to_numpy(dtype=np.float64),
        ep=rows["ep"].to_numpy(dtype=np.float64),
        attention_dp=rows["attention_dp"].to_numpy(dtype=np.float64),
    )


def _unique_rows(table: pd.DataFrame, columns: tuple[str, ...]) -> tuple[Index, Index]:
    """Return (position of the first row of each distinct combination, combination of each row)."""
    code = np.zeros(len(table), dtype=np.int64)
    for column in columns:
        values, distinct = pd.factorize(table[column].to_numpy(), use_na_sentinel=False)
        code = code * max(len(distinct), 1) + values
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    return first.astype(np.intp), inverse.astype(np.intp)
