"""Tables of the price history. Moments are whole microseconds since 1970 UTC, prices whole micro-dollars.

A look is one pull of one source at one moment. A period is a price that stood from the look that first saw it
(`first_seen_us`) to the look that last saw it (`last_seen_us`), and in force until the look that saw another price or
none (`until_us`; NULL while it stands). Tables are made by the migrations beside this file, never from here.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Date,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

# SQLite numbers rows by itself only where the key is called INTEGER.
Number = BigInteger().with_variant(Integer(), "sqlite")

METADATA = MetaData()

sources = Table(
    "sources",
    METADATA,
    Column("id", Number, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("citation", Text, nullable=False),
)

pulls = Table(
    "pulls",
    METADATA,
    Column("id", Number, primary_key=True),
    Column("source_id", Number, ForeignKey("sources.id"), nullable=False),
    Column("moment_us", BigInteger, nullable=False),
    Column("complete", Boolean, nullable=False),
    # Offers about which a complete look said nothing, or those that a partial look saw: ids, packed.
    Column("exceptions", LargeBinary, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("http_status", Integer),
    Column("rows", BigInteger, nullable=False),
    Column("offers", BigInteger, nullable=False),
    Column("set_aside", Text, nullable=False),  # JSON: reason -> rows
    Column("covers", Text, nullable=False),  # JSON: [[provider, term], ...] of which the look is the whole list
    Column("recorded_us", BigInteger, nullable=False),
    UniqueConstraint("source_id", "moment_us", name="uq_pulls_look"),
)

failures = Table(
    "failures",
    METADATA,
    Column("id", Number, primary_key=True),
    Column("source_id", Number, ForeignKey("sources.id"), nullable=False),
    Column("moment_us", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("url", Text, nullable=False),
    Index("ix_failures_source", "source_id", "moment_us"),
)

offers = Table(
    "offers",
    METADATA,
    Column("id", Number, primary_key=True),
    Column("source_id", Number, ForeignKey("sources.id"), nullable=False),
    Column("provider", Text, nullable=False),
    Column("region", Text, nullable=False),
    Column("instance_type", Text, nullable=False),
    Column("term", Text, nullable=False),
    # What the newest look calls the machine: a corrected name corrects the past as well.
    Column("provider_kind", Text, nullable=False),
    Column("gpu", Text, nullable=False),
    Column("gpus_per_node", Integer, nullable=False),
    UniqueConstraint("source_id", "provider", "region", "instance_type", "term", name="uq_offers_key"),
)

periods = Table(
    "periods",
    METADATA,
    Column("offer_id", Number, ForeignKey("offers.id"), primary_key=True),
    Column("first_seen_us", BigInteger, primary_key=True),
    Column("last_seen_us", BigInteger, nullable=False),
    Column("until_us", BigInteger),
    Column("gone", Boolean, nullable=False),
    Column("price_microusd", BigInteger, nullable=False),
    Column("max_nodes", Float),
    Column("carried_from", Date),  # the day the source saw a price that it only repeats
    Column("first_pull_id", Number, ForeignKey("pulls.id"), nullable=False),
    Column("last_pull_id", Number, ForeignKey("pulls.id"), nullable=False),
    sqlite_with_rowid=False,  # rows lie in the order of the key: an offer's history is one stretch of the file
)

set_aside = Table(
    "set_aside",
    METADATA,
    Column("id", Number, primary_key=True),
    Column("source_id", Number, ForeignKey("sources.id"), nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("row", Text, nullable=False),  # JSON: the row as its source states it
    Column("offer", Text, nullable=False),  # JSON: the offer that it would be; "" where it cannot be placed
    Column("first_seen_us", BigInteger, nullable=False),
    Column("last_seen_us", BigInteger, nullable=False),
    Column("looks", Integer, nullable=False),
    Column("first_pull_id", Number, ForeignKey("pulls.id"), nullable=False),
    Column("last_pull_id", Number, ForeignKey("pulls.id"), nullable=False),
    Column("state", Text, nullable=False),  # waiting, confirmed, rejected
    Column("decided_us", BigInteger),
    Index("ix_set_aside_run", "source_id", "last_pull_id"),
    Index("ix_set_aside_fingerprint", "source_id", "fingerprint"),
)
