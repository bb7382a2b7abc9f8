"""Each hard rule, by name. A candidate carries one bit per rule: set means that the candidate breaks it.

The order is the order in which a ruled-out layout is counted: it is tallied under the first rule that it breaks. The
checker (optimizer.check) has one function per rule under the same name; a test holds the two lists together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

RuleKind = Literal["limit", "shape", "model", "target", "offer", "count"]
Bits = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rule:
    """One hard rule.

    Attributes:
        name: how code, reports and the checker call it.
        kind: "limit" (the user's own, on the layout), "shape" (does the split go on the node), "model" (does the
            model allow the split), "target" (memory and latency), "offer" (the user's own, on what is rented),
            "count" (how much of it).
        meaning: what it demands, for people.
        flag: the flag or field that changes it; empty when nothing the user says can.
    """

    name: str
    kind: RuleKind
    meaning: str
    flag: str = ""


RULES: tuple[Rule, ...] = (
    Rule("gpu_allowed", "limit", "the GPU is one that the scenario allows", "--gpu"),
    Rule("weights_allowed", "limit", "the weight format is one that the scenario allows", "--weights"),
    Rule("kv_cache_allowed", "limit", "the KV cache dtype is one that the scenario allows", "--kv-cache"),
    Rule("sizes_allowed", "limit", "tp, pp, ep and attention_dp are ones that the scenario allows", "--tp/--pp/--ep"),
    Rule("dtype_supported", "shape", "the GPU can run this weight format and KV cache dtype"),
    Rule("attention_dp_divisible", "model", "attention data parallelism is for MoE models, whose experts it shares"),
    Rule("layers_over_stages", "model", "every pipeline stage holds at least one layer"),
    Rule("heads_divisible", "model", "attention heads divide over the tensor parallel GPUs"),
    Rule("ffn_divisible", "model", "the MLP width divides over the tensor parallel GPUs"),
    Rule("vocabulary_divisible", "model", "the padded vocabulary divides over the tensor parallel GPUs"),
    Rule("experts_divisible", "model", "experts divide over the expert parallel GPUs"),
    Rule("quantization_blocks", "model", "each GPU's slice holds whole quantization blocks"),
    Rule("tp_scale_up", "shape", "a tensor parallel group lies inside one node", "--tp-across-nodes"),
    Rule("network_known", "shape", "a replica spans nodes only where the network between them is known"),
    Rule("nodes_per_replica", "shape", "a replica spans at most so many nodes", "limits.max_nodes_per_replica"),
    Rule("context_length", "model", "a request's context is within the model's", "--context"),
    Rule(
        "vram_headroom", "target", "weights, KV cache and overhead fit in the GPU's memory with headroom", "--headroom"
    ),
    Rule("ttft", "target", "time to first token", "--ttft-ms"),
    Rule("tpot", "target", "time per output token", "--tpot-ms"),
    Rule("e2e", "target", "end-to-end time of a request", "--e2e-ms"),
    Rule("provider_allowed", "offer", "the provider is one that the scenario allows", "--provider"),
    Rule("provider_kind_allowed", "offer", "the kind of provider is one that the scenario allows", "--provider-kind"),
    Rule("region_allowed", "offer", "the region is one that the scenario allows", "--region"),
    Rule("instance_type_allowed", "offer", "the instance type is one that the scenario allows", "--instance-type"),
    Rule("term_allowed", "offer", "the term (on-demand, spot, reserved) is one that the scenario allows", "--term"),
    Rule("price_age", "offer", "the price is not older than the scenario accepts", "--max-price-age-days"),
    Rule("traffic", "count", "the replicas carry the traffic", "--request-rate"),
    Rule("budget", "count", "the layout costs no more than the budget", "--budget-usd-per-hour"),
    Rule("quota", "count", "no more GPUs or nodes are rented than quotas and stock allow", "--max-gpus"),
    Rule("replicas_allowed", "count", "the number of replicas is one that the scenario allows", "limits.replicas"),
)

RULE_NAMES: tuple[str, ...] = tuple(rule.name for rule in RULES)
_INDEX = {rule.name: index for index, rule in enumerate(RULES)}
_BY_NAME = {rule.name: rule for rule in RULES}


def get_rule(name: str) -> Rule:
    """Return the rule of this name. Raises KeyError for an unknown one."""
    return _BY_NAME[name]


def bit(*names: str) -> int:
    """Return the bits of these rules, together."""
    return sum(1 << _INDEX[name] for name in names)


def bits_of_kind(*kinds: RuleKind) -> int:
    """Return the bits of every rule of these kinds, together."""
    return bit(*(rule.name for rule in RULES if rule.kind in kinds))


def broken_names(bits: int) -> tuple[str, ...]:
    """Return the names of the rules whose bits are set, in rule order."""
    return tuple(rule.name for index, rule in enumerate(RULES) if bits >> index & 1)


def tally(bits: Bits, weights: NDArray[np.int64] | None = None) -> dict[str, int]:
    """Count broken rows under the first rule each breaks.

    Args:
        bits: one entry a row; rows with 0 are not counted.
        weights: how many layouts a row stands for; 1 each when not given.
    """
    broken = bits != 0
    lowest = bits[broken] & -bits[broken]
    amounts = None if weights is None else weights[broken]
    indices = np.log2(lowest.astype(np.float64)).astype(np.int64)
    counts = np.bincount(indices, weights=amounts, minlength=len(RULES))
    return {rule.name: int(counts[index]) for index, rule in enumerate(RULES) if counts[index] > 0}


def merged(tallies: Iterable[dict[str, int]]) -> dict[str, int]:
    """Add tallies up, in rule order, leaving out what is zero."""
    total = dict.fromkeys(RULE_NAMES, 0)
    for one in tallies:
        for name, count in one.items():
            total[name] += count
    return {name: count for name, count in total.items() if count}
