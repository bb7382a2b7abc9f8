"""Variables for Terraform or OpenTofu: the planned nodes with their cloud-init, and the file that declares them.

No provider's resources are written: accounts, images of machines, networks and keys are the reader's own. What is
written is what the plan knows, as one typed variable. Strings of a .tfvars.json are taken as they are: no templates are
looked for in variable files (developer.hashicorp.com/terraform/language/values/variables, read 2026-11).
"""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any, Final

from optimizer.export.compose import compose_project
from optimizer.export.deployment import Deployment, LaunchFile, Nodes
from optimizer.export.gpu_names import vendor
from optimizer.export.offers import disk_gb, machine_name, offers_of, price_ceiling, region_name, summary
from optimizer.export.places import Place, places, secrets_of
from optimizer.export.words import LEADER_ADDRESS, NODE_RANK
from optimizer.export.yaml_text import Script, yaml_text

FOLDER: Final = "/opt/shardwise"
_PLAIN_BYTES: Final = 9_000  # longer files are compressed: AWS takes 16 KiB of user data, other clouds more
VARIABLES: Final = """# What a plan of shardwise asks for, declared for Terraform 1.3 or newer and OpenTofu.
# A module of yours makes the nodes of each group, with an image of the machine that has Docker, Compose 2.23.1 or newer
# and the container toolkit of the GPUs' vendor, and hands each node its user_data:
#
#   user_data = replace(replace(replace(group.user_data.server,
#     "@LEADER_ADDRESS@", leader_address),  # of a replica that spans nodes: the private address of its first node
#     "@NODE_RANK@", rank),                 # 0 on that node, 1 on the next and so on
#     "@HF_TOKEN@", lookup(var.shardwise_secrets, "HF_TOKEN", ""))

variable "shardwise_nodes" {
  description = "Groups of nodes that run the same containers, by name."
  type = map(object({
    plan                   = string       # where these nodes come from, for people
    provider               = string       # as the plan names it: aws, gcp, lambda, ...
    region                 = string       # empty where the price is the same in all regions
    instance_type          = string       # empty where the provider has no name for it: rent gpus_per_node of gpu
    gpu                    = string
    gpus_per_node          = number
    node_count             = number       # in all
    nodes_per_replica      = number       # over 1: nodes of a replica belong on one network, the first is its leader
    spot                   = bool
    max_price_usd_per_hour = number       # of one node
    network                = string       # between nodes
    disk_gb                = number
    ports                  = list(number) # where a node answers requests
    secrets                = list(string) # names of the placeholders @NAME@ that stand for secrets
    user_data              = map(string)  # cloud-init by role: server, or leader and worker
    fallbacks = list(object({ # that run the same, cheapest first
      provider               = string
      region                 = string
      instance_type          = string
      spot                   = bool
      max_price_usd_per_hour = number
    }))
  }))

  validation {
    condition     = alltrue([for group in values(var.shardwise_nodes) : group.node_count > 0])
    error_message = "Each group has at least one node."
  }
}

variable "shardwise_secrets" {
  description = "Values of the secrets that user_data names, such as HF_TOKEN."
  type        = map(string)
  default     = {}
  sensitive   = true
}
"""


def terraform(deployments: tuple[Deployment, ...]) -> tuple[LaunchFile, ...]:
    """Write the values of the variables, and the file that declares them."""
    groups = {place.group: group(place) for place in places(deployments)}
    values = json.dumps({"shardwise_nodes": groups}, indent=2, ensure_ascii=True) + "\n"
    return (LaunchFile("shardwise.auto.tfvars.json", values), LaunchFile("shardwise_variables.tf", VARIABLES))


def group(place: Place) -> dict[str, Any]:
    """Return one kind of node."""
    deployments = place.deployments
    roles = ("server",) if place.nodes_per_unit == 1 else ("leader", "worker")
    nodes = place.nodes
    return {
        "plan": summary(deployments),
        **_offer(nodes),
        "gpu": nodes.gpu,
        "gpus_per_node": nodes.gpus_per_node,
        "node_count": place.node_count,
        "nodes_per_replica": place.nodes_per_unit,
        "network": nodes.network,
        "disk_gb": max(disk_gb(each.replica, nodes.gpu) for each in deployments),
        "ports": sorted({place.seats_of(each)[0].port for each in deployments}),
        "secrets": sorted(secrets_of(place)),
        "user_data": {role: cloud_init(place, role) for role in roles},
        "fallbacks": [_offer(each) for each in offers_of(deployments)[1:]],
    }


def _offer(nodes: Nodes) -> dict[str, Any]:
    return {
        "provider": nodes.provider,
        "region": region_name(nodes),
        "instance_type": machine_name(nodes),
        "spot": nodes.spot,
        "max_price_usd_per_hour": price_ceiling([nodes]),
    }


def cloud_init(place: Place, role: str) -> str:
    """Return the cloud-config that starts a node's containers."""
    names = [*sorted(secrets_of(place)), *((LEADER_ADDRESS, NODE_RANK) if role != "server" else ())]
    files = [_file("compose.yaml", yaml_text([compose_project(place, role)]))]
    if names:
        files.append(_file(".env", "".join(f"{name}='@{name}@'\n" for name in names)))
    start = [["docker", "compose", "--project-directory", FOLDER, "up", "--detach"]]
    if vendor(place.nodes.gpu) == "nvidia":
        start.insert(0, ["nvidia-ctk", "runtime", "configure", "--runtime=docker"])
        start.insert(1, ["systemctl", "restart", "docker"])
    return "#cloud-config\n" + yaml_text([{"write_files": files, "runcmd": start}])


def _file(name: str, text: str) -> dict[str, Any]:
    file = {"path": f"{FOLDER}/{name}", "permissions": "0600"}
    if len(text) <= _PLAIN_BYTES:
        return file | {"content": Script(text)}
    packed = base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
    return file | {"encoding": "gz+b64", "content": packed}
