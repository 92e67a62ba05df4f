"""Insert the three plans."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

plans = sa.table("plans", sa.column("name", sa.String), sa.column("price_cents", sa.Integer))


def upgrade():
    op.bulk_insert(
        plans,
        [
            {"name": "free", "price_cents": 0},
            {"name": "team", "price_cents": 900},
            {"name": "company", "price_cents": 4900},
        ],
    )


def downgrade():
    op.execute(plans.delete())
