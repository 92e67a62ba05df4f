"""Add the column currency, with the slow statement of the harness."""

import os

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade():
    op.execute(os.environ["ADD_CURRENCY"])
