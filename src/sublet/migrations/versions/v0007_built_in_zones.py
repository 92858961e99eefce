"""Serve the built-in name server's zones from the registry's rows.

Revision ID: 0007
Revises: 0006
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None
# A name server of 0006 would serve only the records that its publisher wrote.
compatible_with: tuple[str, ...] = ()

# Delete the records that the publisher wrote for zones on the built-in name server: these types, at the owners that were sent.
OURS = """
DELETE FROM zone_records WHERE type IN ('NS', 'DS', 'A', 'AAAA') AND EXISTS (
    SELECT 1 FROM published_owners JOIN subdomains ON subdomains.id = published_owners.subdomain_id
    JOIN platform_domains ON platform_domains.id = subdomains.platform_domain_id
    WHERE platform_domains."primary" = '' AND subdomains.platform_domain_id = zone_records.platform_domain_id
    AND published_owners.owner = zone_records.owner AND published_owners.sent)
"""
OWNERS = """
DELETE FROM published_owners WHERE subdomain_id IN (
    SELECT subdomains.id FROM subdomains JOIN platform_domains ON platform_domains.id = subdomains.platform_domain_id
    WHERE platform_domains."primary" = '')
"""
SETTLED = """
UPDATE subdomains SET published_generation = generation, published_at = generation_at, provision_error = NULL, attempts = 0,
    next_attempt_at = NULL
WHERE generation <> published_generation
    AND platform_domain_id IN (SELECT id FROM platform_domains WHERE "primary" = '')
"""


def upgrade() -> None:
    """Keep only adopted records in `zone_records`, and publish all names of zones on the built-in name server."""
    op.create_index(
        "ix_subdomains_platform_domain_id_generation_at",
        "subdomains",
        ["platform_domain_id", "generation_at"],
        sqlite_where=sa.text("generation_at IS NOT NULL"),
        postgresql_where=sa.text("generation_at IS NOT NULL"),
    )
    op.execute(sa.text(OURS))
    op.execute(sa.text(OWNERS))
    op.execute(sa.text(SETTLED))
