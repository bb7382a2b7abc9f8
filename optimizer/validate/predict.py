"""One report: what is predicted of it, by which rule, and what cannot be judged. Observed cells are not read."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from catalogs.models import ModelSpec
from optimizer.divisibility import Refusal
from optimizer.memory.cache_log import cache_log
from optimizer.memory.policy import GIB
from optimizer.split import Split
from optimizer.validate.cases import Answer, Row, number, unread, whole
from optimizer.validate.engines import Engine, read_day, read_engine
from optimizer.validate.formats import Precision, read_kv, read_precision
from optimizer.validate.gpus import Card, read_cards
from optimizer.validate.hardware import RULE as DTYPE_RULE
from optimizer.validate.hardware import Verdict, check_formats
from optimizer.validate.layout import UNEVEN_STAGES_SINCE, accepted_tp, read_split, refusals, stages_said
from optimizer.validate.memory import OUT_OF_WARM_UP, Estimate, Layout, estimate, profile_is_modelled
from optimizer.validate.models import UnknownModel, resolve_model
from optimizer.validate.nominal import nominal_problem

INPUTS = ("n_gpus", "tp", "pp", "dp", "ep", "mem_util", "max_model_len", "max_concurrency_len", "total_gib")
MOST_GPUS = 65_536
RULE_KINDS = {"b", "c"}  # reports that a rule can decide where memory cannot be counted
MEMORY_RULE, WARM_UP_RULE = "vram_headroom", "warm_up"
PADDED_ONLINE_SINCE = (
    0,
    22,
)  # vLLM pads shards of weights that it quantizes in blocks itself (issue 44763, 2026-06-07)
_BITS = re.compile(r"(\d+(?:\.\d+)?)\s*(?:bpw|-?bits?\b)", re.I)


@dataclass(frozen=True, slots=True)
class Prediction:
    """What is predicted of one report.

    Attributes:
        weights_gib: weights per GPU; None where they cannot be counted.
        kv_tokens, max_concurrency: as the engine's log would print them.
        fits: "yes", "no", or "" where it cannot be judged.
        rule: the rule that decides, as in optimizer.rules, or "warm_up".
        reason: the rule and its numbers.
        not_judged: what could not be judged, and why.
    """

    weights_gib: float | None = None
    kv_tokens: int | None = None
    max_concurrency: float | None = None
    fits: Answer = ""
    rule: str = ""
    reason: str = ""
    not_judged: tuple[str, ...] = ()


@dataclass(slots=True)
class _Report:
    """A row, read; what cannot be judged is noted on the way."""

    row: Row
    engine: Engine
    cards: tuple[Card, ...]
    precision: Precision
    model: ModelSpec | None = None
    unknown: str = ""
    not_judged: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return self.row.get("model", "")

    @property
    def kind(self) -> str:
        return self.row.get("kind", "").strip().lower()

    @property
    def padded_online(self) -> bool:
        return self.precision.online and "block" in self.precision.text.lower()


def predict(row: Row) -> Prediction:
    """Return what is predicted of one report; never raises for what a cell says."""
    if row.get("kind", "").strip().lower() == "e":
        return Prediction(not_judged=("a fault of a price catalog, not a layout",))
    wrong = unread(row, INPUTS)
    if wrong:
        return Prediction(not_judged=(f"expected positive numbers, got {', '.join(wrong)}",))
    if any((whole(row, name) or 1) > MOST_GPUS for name in ("n_gpus", "tp", "pp", "dp", "ep")):
        return Prediction(not_judged=(f"expected at most {MOST_GPUS:,} GPUs",))
    report = _read(row)
    kv = read_kv(row.get("kv_dtype", ""))
    split: Split | None = None
    broken: tuple[Refusal, ...] = ()
    found: Estimate | None = None
    if report.model is not None:
        split = read_split(row, report.model, kv or _kv_of(report.model))
        broken = refusals(report.model, split, report.engine)
        found = None if broken else _estimate(report, split)
    return _decide(report, split, broken, _verdicts(report, kv), found)


def _read(row: Row) -> _Report:
    engine = read_engine(row.get("engine", ""), row.get("date", ""))
    precision = read_precision(row.get("weights_dtype", ""))
    if precision.weights is None and not precision.unpublished:
        inside = read_precision(" ".join(re.findall(r"\((.*?)\)", row.get("model", ""))))
        precision = inside if inside.weights or inside.unpublished else precision
    report = _Report(row, engine, read_cards(row.get("gpu", "")), precision)
    if report.padded_online and engine.version and engine.version < PADDED_ONLINE_SINCE:
        report.precision = replace(precision, online=False)
    try:
        report.model = resolve_model(report.text, report.precision)
    except UnknownModel as verdict:
        report.unknown = str(verdict)
    return report


def _kv_of(model: ModelSpec) -> str:
    """The KV dtype that engines take by themselves."""
    own = model.checkpoint
    return own.kv_cache or ("bf16" if own.dtype == "fp32" and own.weights != "fp32" else own.dtype)


def _verdicts(report: _Report, kv: str | None) -> list[Verdict]:
    weights: str | None = report.model.checkpoint.weights if report.model is not None else report.precision.weights
    if weights is None:
        weights = read_precision(report.text).weights
    day = read_day(report.row.get("date", ""))
    return [
        verdict
        for card in report.cards
        for verdict in check_formats(report.engine, card, report.precision, weights, kv, report.model, report.text, day)
    ]


def _estimate(report: _Report, split: Split) -> Estimate | None:
    """Memory of the fullest GPU; None (with why) where the report does not give enough."""
    row, model = report.row, report.model
    total = number(row, "total_gib")
    if not report.cards and total is None:
        report.not_judged.append(f"memory: unknown GPU {row.get('gpu', '').strip()[:80]!r}")
        return None
    card = report.cards[0] if report.cards else Card("unknown", "0", None, True)
    memory = total * GIB if total is not None else card.memory_bytes
    if memory is None or model is None:
        report.not_judged.append(f"memory: {card.name} names no one GPU")
        return None
    engine = Engine("other", (), False, report.engine.text) if _is_unpublished(report) else report.engine
    longest = whole(row, "max_model_len")
    found = estimate(Layout(model, split, card, engine, split.gpus, memory, _fraction(row), longest))
    return _by_bits(report, split, found) if _is_unpublished(report) else found


def _fraction(row: Row) -> float | None:
    """The memory fraction; 90 and "90%" are 0.9."""
    value = number(row, "mem_util")
    return None if value is None else min(value / 100 if value > 1 else value, 1.0)


def _is_unpublished(report: _Report) -> bool:
    return report.precision.unpublished or read_precision(report.text).unpublished


def _by_bits(report: _Report, split: Split, found: Estimate) -> Estimate | None:
    """Formats of no fixed layout (GGUF, EXL2): bits per weight say whether they fit, not what a tensor takes."""
    report.not_judged.append("weights: GGUF and EXL2 mix widths by tensor, the name gives their mean only")
    bits = _BITS.search(f"{report.text} {report.precision.text}")
    if bits is None or report.model is None:
        return None
    held = report.model.total_parameters * float(bits.group(1)) / 8 / (split.tp * split.pp)
    return replace(found, weights_bytes=held, budget_bytes=found.budget_bytes + found.weights_bytes - held)


def _decide(
    report: _Report,
    split: Split | None,
    broken: tuple[Refusal, ...],
    verdicts: list[Verdict],
    found: Estimate | None,
) -> Prediction:
    rules, said = _against(report, split, broken, verdicts, found)
    numbers = _numbers(report, found)
    if rules:
        fits: Answer = "no"
        rule = rules[0]
        said += [f"{DTYPE_RULE}: {verdict.said}" for verdict in verdicts if not verdict.refused]
    else:
        fits, rule, said = _accepted(report, split, verdicts, found)
    said += _asides(report, split)
    return replace(numbers, fits=fits, rule=rule, reason="; ".join(said), not_judged=tuple(report.not_judged))


def _against(
    report: _Report,
    split: Split | None,
    broken: tuple[Refusal, ...],
    verdicts: list[Verdict],
    found: Estimate | None,
) -> tuple[list[str], list[str]]:
    """The rules that speak against a report's layout, and what they say."""
    rules = [refusal.rule for refusal in broken]
    said = [f"{refusal.rule}: needs {refusal.needs}" for refusal in broken]
    if broken and report.model is not None and split is not None:
        said.append(f"tp that load: {accepted_tp(report.model, split, report.engine)}")
    refused = [f"{DTYPE_RULE}: {verdict.said}" for verdict in verdicts if verdict.refused]
    rules += [DTYPE_RULE] if refused else []
    said += refused
    problem = found.problem if found is not None else ""
    if problem:
        rules.append(WARM_UP_RULE if problem.startswith(OUT_OF_WARM_UP) else MEMORY_RULE)
        said.append(f"{rules[-1]}: {problem}")
    if report.unknown:
        report.not_judged.append(f"memory and split: {report.unknown}")
        nominal = nominal_problem(report.text, report.precision, report.engine, report.cards, report.row)
        rules += [MEMORY_RULE] if nominal else []
        said += [f"{MEMORY_RULE}: {nominal}"] if nominal else []
    return rules, said


def _accepted(
    report: _Report, split: Split | None, verdicts: list[Verdict], found: Estimate | None
) -> tuple[Answer, str, list[str]]:
    """What speaks for the layout; no answer where too little is known for one."""
    runs = [f"{DTYPE_RULE}: {verdict.said}" for verdict in verdicts]
    # An engine that is not modelled may hold less cache than its memory would, so a stated length is not promised.
    promised = found is not None and not (report.engine.name == "other" and whole(report.row, "max_model_len"))
    if found is not None and promised:
        text = _room_said(found)
        return (
            ("yes", DTYPE_RULE, [*runs, text]) if report.kind == "c" and runs else ("yes", MEMORY_RULE, [text, *runs])
        )
    if report.kind not in RULE_KINDS:
        return "", "", runs
    if split is not None and report.model is not None:
        return _loads(report, split, report.model, runs)
    if runs:
        return "yes", DTYPE_RULE, runs
    pp = whole(report.row, "pp") or 1
    if pp > 1 and report.engine.name == "vllm":
        uneven = not report.engine.version or report.engine.version >= UNEVEN_STAGES_SINCE
        text = "layers need not divide over stages since vLLM 0.5.1; the KV blocks are the fewest of any stage's"
        return "yes" if uneven else "no", "layers_over_stages", [f"layers_over_stages: {text}"]
    return "", "", runs


def _room_said(found: Estimate) -> str:
    tokens = f", {found.log.kv_tokens:,} KV tokens" if found.log is not None and found.log.kv_tokens else ""
    outside = found.warm_up.need_bytes
    spare = f"; warm-up takes {outside / GIB:.2f} of the {found.outside_bytes / GIB:.2f} outside" if outside else ""
    return (
        f"{MEMORY_RULE}: {found.weights_bytes / GIB:.2f} GiB of weights leave {found.budget_bytes / GIB:.2f} GiB for "
        f"the cache{tokens}{spare}"
    )


def _loads(report: _Report, split: Split, model: ModelSpec, runs: list[str]) -> tuple[Answer, str, list[str]]:
    loads = f"the split loads; tp that load: {accepted_tp(model, split, report.engine)}"
    if report.padded_online:
        note = "blocks of weights quantized online are padded since vLLM 0.22 and were refused before"
        return "yes", "quantization_blocks", [f"quantization_blocks: {note}; {loads}", *runs]
    return "yes", "layers_over_stages" if split.pp > 1 else "heads_divisible", [loads, *runs]


def _numbers(report: _Report, found: Estimate | None) -> Prediction:
    if found is None:
        return Prediction()
    weights = None if _is_unpublished(report) else found.weights_bytes / GIB
    if found.log is None or not profile_is_modelled(report.engine):
        named = report.engine.text or "an engine that is not named"
        report.not_judged.append(f"KV tokens: how {named} sizes its cache is not modelled")
        return Prediction(weights_gib=weights)
    if report.engine.name == "sglang" and _is_pooled(report.model):
        report.not_judged.append("KV tokens: SGLang's pools for compressed and sliding layers are not modelled")
        return Prediction(weights_gib=weights)
    length = whole(report.row, "max_concurrency_len") or whole(report.row, "max_model_len")
    most = None
    if length:
        log = cache_log(
            found.held,
            found.budget_bytes,
            engine=report.engine.spec,
            max_model_len=length,
            max_batched_tokens=found.max_batched_tokens,
        )
        most = log.max_concurrency
    return Prediction(weights_gib=weights, kv_tokens=found.log.kv_tokens, max_concurrency=most)


def _is_pooled(model: ModelSpec | None) -> bool:
    return model is not None and any(
        layer.attention.window_tokens or layer.attention.tokens_per_entry != 1 for layer, _ in model.layer_counts
    )


def _asides(report: _Report, split: Split | None) -> list[str]:
    """What else a reader should know: how layers go over stages, mixed GPU types, links."""
    said = []
    pp = whole(report.row, "pp") or 1
    for name in [part for part in re.split(r"[;,]", report.text) if part.strip()] if pp > 1 else []:
        try:
            model = resolve_model(name, report.precision)
        except UnknownModel:
            continue
        if pp <= len(model.layers):
            said.append(f"layers_over_stages: {stages_said(model, pp)}")
    if "+" in report.row.get("gpu", "") and len(report.cards) > 1:
        said.append("mixed GPU types: a tensor parallel group runs at its slowest card and link")
    elif split is not None and split.tp > 1 and report.cards and not report.cards[0].linked:
        said.append("tensor parallel over PCI Express: all-reduces cost more than over NVLink")
    return said
