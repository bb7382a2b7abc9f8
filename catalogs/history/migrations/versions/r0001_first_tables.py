"""First tables: sources, pulls, failures, offers, periods, rows set aside."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "sources",
        sa.Column("id", _NUMBER, primary_key=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sa.Column("citation", sa.Text, nullable=False),
    )
    op.create_table(
        "pulls",
        sa.Column("id", _NUMBER, primary_key=True),
        sa.Column("source_id", _NUMBER, sa.ForeignKey("sources.id"), nullable=False),
        sa.Column("moment_us", sa.BigInteger, nullable=False),
        sa.Column("complete", sa.Boolean, nullable=False),
        sa.Column("exceptions", sa.LargeBinary, nullable=False),
        sa.Column("sha256", sa.Text, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("http_status", sa.Integer),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("offers", sa.BigInteger, nullable=False),
        sa.Column("set_aside", sa.Text, nullable=False),
        sa.Column("covers", sa.Text, nullable=False),
        sa.Column("recorded_us", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("source_id", "moment_us", name="uq_pulls_look"),
    )
    op.create_table(
        "failures",
        sa.Column("id", _NUMBER, primary_key=True),
        sa.Column("source_id", _NUMBER, sa.ForeignKey("sources.id"), nullable=False),
        sa.Column("moment_us", sa.BigInteger, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
    )
    op.create_index("ix_failures_source", "failures", ["source_id", "moment_us"])
    op.create_table(
        "offers",
        sa.Column("id", _NUMBER, primary_key=True),
        sa.Column("source_id", _NUMBER, sa.ForeignKey("sources.id"), nullable=False),
        sa.Column("provider", sa.Text, nullable=False),
        sa.Column("region", sa.Text, nullable=False),
        sa.Column("instance_type", sa.Text, nullable=False),
        sa.Column("term", sa.Text, nullable=False),
        sa.Column("provider_kind", sa.Text, nullable=False),
        sa.Column("gpu", sa.Text, nullable=False),
        sa.Column("gpus_per_node", sa.Integer, nullable=False),
        sa.UniqueConstraint("source_id", "provider", "region", "instance_type", "term", name="uq_offers_key"),
    )
    op.create_table(
        "periods",
        sa.Column("offer_id", _NUMBER, sa.ForeignKey("offers.id"), primary_key=True),
        sa.Column("first_seen_us", sa.BigInteger, primary_key=True),
        sa.Column("last_seen_us", sa.BigInteger, nullable=False),
        sa.Column("until_us", sa.BigInteger),
        sa.Column("gone", sa.Boolean, nullable=False),
        sa.Column("price_microusd", sa.BigInteger, nullable=False),
        sa.Column("max_nodes", sa.Float),
        sa.Column("carried_from", sa.Date),
        sa.Column("first_pull_id", _NUMBER, sa.ForeignKey("pulls.id"), nullable=False),
        sa.Column("last_pull_id", _NUMBER, sa.ForeignKey("pulls.id"), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "set_aside",
        sa.Column("id", _NUMBER, primary_key=True),
        sa.Column("source_id", _NUMBER, sa.ForeignKey("sources.id"), nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("row", sa.Text, nullable=False),
        sa.Column("offer", sa.Text, nullable=False),
        sa.Column("first_seen_us", sa.BigInteger, nullable=False),
        sa.Column("last_seen_us", sa.BigInteger, nullable=False),
        sa.Column("looks", sa.Integer, nullable=False),
        sa.Column("first_pull_id", _NUMBER, sa.ForeignKey("pulls.id"), nullable=False),
        sa.Column("last_pull_id", _NUMBER, sa.ForeignKey("pulls.id"), nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("decided_us", sa.BigInteger),
    )
    op.create_index("ix_set_aside_run", "set_aside", ["source_id", "last_pull_id"])
    op.create_index("ix_set_aside_fingerprint", "set_aside", ["source_id", "fingerprint"])


def downgrade() -> None:
    """Refuse: a database is never taken back, because that would lose prices."""
    raise NotImplementedError("the price history is never taken back to an older version")
