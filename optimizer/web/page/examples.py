"""Questions to begin with."""

from __future__ import annotations

from optimizer.web.page.fields import DEFAULT, Question

EXAMPLES: dict[str, Question] = {
    "70B chat": DEFAULT,
    "405B across nodes": {
        "model": "meta-llama/Llama-3.1-405B-Instruct",
        "workload": {"input_tokens": 2000, "output_tokens": 500, "request_rate": 1},
        "targets": {"tpot_ms": 120},
        "limits": {"gpus": ["H100-SXM-80GB", "A100-SXM-80GB"]},
    },
    "70B on too small a budget": {
        "model": "meta-llama/Llama-3.1-70B-Instruct",
        "workload": {"input_tokens": 8000, "output_tokens": 500, "request_rate": 8},
        "targets": {"ttft_ms": 400, "tpot_ms": 25},
        "limits": {"budget_usd_per_hour": 6},
    },
}
