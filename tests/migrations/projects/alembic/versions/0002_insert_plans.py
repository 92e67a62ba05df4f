"""Insert many plans, with the statement of the harness."""

import os

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade():
    op.execute(os.environ["INSERT_PLANS"])
