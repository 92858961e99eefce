"""Run the migrations on the connection of `migrations.upgrade_within`. Alembic loads this file."""

from alembic import context

from sublet.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
    transaction_per_migration=False,
)
with context.begin_transaction():
    context.run_migrations()
