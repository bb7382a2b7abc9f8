"""Hardware of one's own as offers: what a node costs an hour, from its price, its power and the years it serves.

A node is paid for in every hour of its life, whatever runs on it:

    capital   (node + its network ports) x (1 - residual share), as an annuity at the capital rate over the years
    upkeep    a share of the node's price every year
    power     kW of the node x PUE x price of a kWh
    hosting   kW of the node x price of a kW of space for a month

The network's share per port (adapter, cable, its part of the switches) is by default what the comparison of fabrics for
1,000 GPUs gives that puts InfiniBand at about $15M and Ethernet at about $7M, so $15,000 and $7,000 per GPU.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import field_validator

from catalogs.errors import UnknownNameError
from catalogs.gpus import get_gpu
from optimizer.fields import Cap, Dollars, Name, Part, number, whole

HOURS_PER_YEAR = 8760
OWNED = "owned"  # the term of such offers
MONTHS_PER_YEAR = 12
USD_PER_PORT = {"infiniband": 15_000.0, "ethernet": 7_000.0, "none": 0.0}

_ZERO_OR_MORE = number("a number from 0 to 1,000,000,000", lambda x: 0 <= x <= 1e9)
Amount = Annotated[float, _ZERO_OR_MORE]
Rate = Annotated[float, number("a percentage from 0 to 100", lambda x: 0 <= x <= 100)]


class OwnedHardware(Part):
    """Nodes that are bought, or stand there already.

    Attributes:
        name: how the answer calls them; GPUs and network when not given.
        gpu, gpus_per_node: what a node is.
        capital_usd_per_node: what it costs, without the network.
        years: over which it is written off.
        residual_share: share of the capital that it is worth then.
        capital_rate_percent: what a year of the money in it costs.
        upkeep_percent_per_year: support and repairs, of the capital.
        power_kw_per_node: drawn on average, by the node alone; pue: what the site draws for each kW of it.
        usd_per_kwh: price of power.
        hosting_usd_per_kw_month: price of space for it.
        network: between nodes; usd_per_port: adapter, cable and a share of the switches; ports_per_node: one a GPU
            when not given; network_gbit_per_s: of a node, all ports together.
        max_nodes: how many there could be.
        region: where they stand.
    """

    name: Name | None = None
    gpu: Name
    gpus_per_node: Annotated[int, whole(1, 72)] = 8
    capital_usd_per_node: Amount
    years: Annotated[float, number("years from 0.5 to 15", lambda x: 0.5 <= x <= 15)] = 4.0
    residual_share: Annotated[float, number("a share from 0 to 0.9", lambda x: 0 <= x <= 0.9)] = 0.0
    capital_rate_percent: Rate = 0.0
    upkeep_percent_per_year: Rate = 0.0
    power_kw_per_node: Amount
    pue: Annotated[float, number("a number from 1 to 3", lambda x: 1 <= x <= 3)] = 1.3
    usd_per_kwh: Amount
    hosting_usd_per_kw_month: Amount = 0.0
    network: Literal["infiniband", "ethernet", "none"] = "ethernet"
    usd_per_port: Amount | None = None
    ports_per_node: Annotated[int, whole(0, 1000)] | None = None
    network_gbit_per_s: Dollars | None = None
    max_nodes: Cap | None = None
    region: Name = "global"

    @field_validator("gpu")
    @classmethod
    def _known_gpu(cls, name: str) -> str:
        try:
            return get_gpu(name).name
        except UnknownNameError as error:
            raise ValueError(str(error)) from error

    @property
    def label(self) -> str:
        """How the answer calls it."""
        network = {"infiniband": ", InfiniBand", "ethernet": ", Ethernet", "none": ""}[self.network]
        return self.name or f"{self.gpus_per_node}x {self.gpu} (own{network})"

    @property
    def network_usd_per_node(self) -> float:
        """What the network costs of each node."""
        ports = self.gpus_per_node if self.ports_per_node is None else self.ports_per_node
        return ports * (USD_PER_PORT[self.network] if self.usd_per_port is None else self.usd_per_port)

    @property
    def capital_usd(self) -> float:
        """What a node costs with its network, when it is bought."""
        return self.capital_usd_per_node + self.network_usd_per_node

    @property
    def usd_per_node_hour(self) -> float:
        """What a node costs an hour, on average over its years."""
        return sum(self.parts_usd_per_hour.values())

    @property
    def parts_usd_per_hour(self) -> dict[str, float]:
        """What a node costs an hour, by cause."""
        lost = self.capital_usd * (1 - self.residual_share)
        rate = self.capital_rate_percent / 100
        # An annuity pays back what is lost, with interest; interest alone on what is got back at the end.
        yearly = lost * (rate / (1 - (1 + rate) ** -self.years) if rate > 0 else 1 / self.years)
        yearly += self.capital_usd * self.residual_share * rate
        return {
            "capital": yearly / HOURS_PER_YEAR,
            "upkeep": self.capital_usd * self.upkeep_percent_per_year / 100 / HOURS_PER_YEAR,
            "power": self.power_kw_per_node * self.pue * self.usd_per_kwh,
            "hosting": self.power_kw_per_node * self.hosting_usd_per_kw_month * MONTHS_PER_YEAR / HOURS_PER_YEAR,
        }
