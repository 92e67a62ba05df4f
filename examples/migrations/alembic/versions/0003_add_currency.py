"""Add the column currency."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade():
    op.add_column("plans", sa.Column("currency", sa.String(3), nullable=False, server_default="EUR"))


def downgrade():
    op.drop_column("plans", "currency")
