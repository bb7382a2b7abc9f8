"""Run the steps on the connection, and inside the transaction, that the program hands over."""

from alembic import context

from catalogs.history.schema import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
context.run_migrations()
