"""What a plan asks to be started: replicas that run alike, the nodes that they run on, and the process of each node.

An exporter is given these records and nothing else: every kind of plan is first read into them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes of one offer.

    Attributes:
        count: how many are rented.
        price_usd_per_node_hour: as it is billed, after the user's own discounts.
        price_seen_on: the day the price was seen.
        spot: they can be taken back at any time.
        network: between nodes: "infiniband", "efa", "roce", "ethernet", "none" and so on, as in the catalog.
    """

    provider: str
    region: str
    instance_type: str
    term: str
    gpu: str
    gpus_per_node: int
    count: int
    price_usd_per_node_hour: float
    price_seen_on: date
    fabric: str
    network: str
    network_gbit_per_s: float | None

    @property
    def spot(self) -> bool:
        """Whether they can be taken back."""
        return self.term == "spot"


@dataclass(frozen=True, slots=True)
class ReplicaSpec:
    """One replica, and what its engine has to be told.

    Attributes:
        model: Hub name, or a path of the user's.
        served_name: what requests call it.
        weights, kv_cache: formats, as in a plan.
        checkpoint_weights: the format that the named checkpoint is in; another one than `weights` has to be made while
            loading, or needs another checkpoint (`notes` of the command say which).
        tp, pp, ep, attention_dp: the split (see optimizer.split.Split).
        nodes: nodes that it spans; 1 when a node holds one or more.
        max_model_len_tokens: the longest request, prompt and answer.
        max_sequences: requests at once on the whole replica.
        max_batched_tokens: tokens one engine step may process.
        checkpoint_kv_cache: the KV cache dtype that the checkpoint asks for.
        gpu_memory_fraction: what the engine is told to take of a GPU's memory.
        engine, engine_version: "vllm", "sglang" or "trtllm"; the version is empty where the question names none.
        trust_remote_code: the checkpoint brings code of its own that the engine must be allowed to run.
    """

    model: str
    served_name: str
    weights: str
    kv_cache: str
    checkpoint_weights: str
    tp: int
    pp: int
    ep: int
    attention_dp: int
    nodes: int
    max_model_len_tokens: int
    max_sequences: int
    max_batched_tokens: int
    gpu_memory_fraction: float
    engine: str
    engine_version: str = ""
    trust_remote_code: bool = False
    checkpoint_kv_cache: str = "bf16"

    @property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return self.tp * self.pp * self.attention_dp

    @property
    def gpus_on_each_node(self) -> int:
        """GPUs that it uses on each of its nodes."""
        return -(-self.gpus // self.nodes)


@dataclass(frozen=True, slots=True)
class Process:
    """What runs on one node of a replica.

    Attributes:
        role: "server" where a replica is on one node; else "leader" or "worker".
        command: program and arguments, each an argument of its own; the whole of it, so that an image's own entry point
            has to be replaced. On several nodes an argument may hold `$LEADER_ADDRESS` (host name or IP of the leader)
            and `$NODE_RANK` (0 on the leader), which each target fills in with its own words.
        ready_path: what answers 200 over HTTP once it serves; empty on workers.
    """

    role: str
    command: tuple[str, ...]
    ready_path: str = ""


@dataclass(frozen=True, slots=True)
class EngineLaunch:
    """How an engine starts one replica.

    Attributes:
        image: container image with a tag, as published by the engine's makers.
        processes: one on one node; else leader first, then the worker that all further nodes run.
        environment: variables that it needs, with values; no secrets.
        secrets: names of variables that hold secrets of the user's (HF_TOKEN of a gated model).
        optional_secrets: the same, where it works without (HF_TOKEN of a public model lifts limits on downloads).
        port: where it serves the OpenAI-compatible API.
        ray: whether the nodes form a Ray cluster (the processes start it).
        mpi: the leader's command is started by MPI, and holds `$HOSTS` ("host:GPUs" of each node, the leader first);
            the nodes have to reach each other over SSH, so that only scripts can be written.
        notes: what no flag does, for people.
    """

    engine: str
    version: str
    image: str
    processes: tuple[Process, ...]
    environment: tuple[tuple[str, str], ...]
    secrets: tuple[str, ...]
    port: int
    ray: bool
    notes: tuple[str, ...]
    mpi: bool = False
    optional_secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Placement:
    """Replicas of a deployment on nodes that hold the same.

    Attributes:
        group: DNS label of these nodes; deployments that share nodes name the same group.
        units: how many such nodes (of a replica that spans nodes: how many such sets of nodes).
        gpu_indices: of each replica on one of them, the GPUs that are its own (of one that spans nodes, on each node).
        ports: of each replica, where it serves: unique on a node, whatever else runs there.
    """

    group: str
    units: int
    gpu_indices: tuple[tuple[int, ...], ...]
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Deployment:
    """Replicas that run alike on nodes of one offer.

    Attributes:
        name: DNS label, unique in the plan.
        replicas: copies of the model (in the busiest period of a fleet).
        nodes: the offer that was chosen.
        fallbacks: next cheapest offers of nodes that run exactly the same commands (same GPU, GPUs per node and
            fabric), cheapest first.
        context: lines for people that head each file: the plan's summary, price, date of prices, targets.
        placements: which replicas lie where; a node that holds replicas of several models has one in each deployment.
    """

    name: str
    replica: ReplicaSpec
    launch: EngineLaunch
    replicas: int
    nodes: Nodes
    fallbacks: tuple[Nodes, ...]
    context: tuple[str, ...]
    placements: tuple[Placement, ...]


@dataclass(frozen=True, slots=True)
class LaunchFile:
    """One file to write, or to print.

    Attributes:
        name: file name, without a folder.
        text: what is in it, with a newline at the end.
    """

    name: str
    text: str
