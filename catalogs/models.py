"""ModelSpec: what a language model holds and computes, read from a Hugging Face config.json.

`load_model` takes the name of a bundled model, a config.json, the folder of a checkpoint, or a file of facts given by
hand
(the format is in catalogs/model_by_hand.py). Nothing is ever fetched. `parse_config` reads a config already decoded.

This module only gathers the names that others use:

    model_records.py        Attention, Mlp, Layer, Checkpoint          model_spec.py          ModelSpec and its sums
    model_parser.py         parse_config                               model_files.py         load_model, named_model
    model_config.py         keys of an untrusted config, within bounds architectures/         one function per family of
    models
    model_quantization.py   quantization_config -> Checkpoint          model_tensor_names.py  module names -> tensor
    kinds
    model_precision.py      bytes per parameter, storage(spec, format) model_towers.py        vision tower, MTP layers
    model_by_hand.py        facts given by hand
"""

from catalogs.model_config import ModelConfigError
from catalogs.model_files import bundled_models, load_model, named_model, names_only
from catalogs.model_parser import parse_config
from catalogs.model_precision import bytes_per_parameter, kind_bytes, storage
from catalogs.model_records import (
    Attention,
    AttentionKind,
    Checkpoint,
    Frozen,
    KvDtype,
    Layer,
    Mlp,
    TensorKind,
    WeightFormat,
)
from catalogs.model_spec import ModelSpec

__all__ = [
    "Attention",
    "AttentionKind",
    "Checkpoint",
    "Frozen",
    "KvDtype",
    "Layer",
    "Mlp",
    "ModelConfigError",
    "ModelSpec",
    "TensorKind",
    "WeightFormat",
    "bundled_models",
    "bytes_per_parameter",
    "kind_bytes",
    "load_model",
    "named_model",
    "names_only",
    "parse_config",
    "storage",
]
