"""What each serving engine is told to run one layout: the one place that knows engines' flags.

serving.py    Serving: what has to be said; Flag: one flag with its value
versions.py   releases of each engine, and which flags came when
vllm.py, sglang.py, trtllm.py    Serving -> flags (and, where flags do not reach, a configuration file)
weights.py    weights that the checkpoint is not in: made while loading, or another checkpoint is needed
layout.py     a replica and a memory policy -> the flags, with the memory fraction
"""

from optimizer.engine_flags.layout import EngineFlags, engine_flags
from optimizer.engine_flags.serving import Flag, Serving

__all__ = ["EngineFlags", "Flag", "Serving", "engine_flags"]
