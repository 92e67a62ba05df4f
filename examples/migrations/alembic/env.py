"""Runs the migrations on the database that DB_HOST, DB_PORT, DB_USER, DB_PASSWORD and DB_NAME name."""

import os

from alembic import context
from sqlalchemy import URL, create_engine, pool

url = URL.create(
    "mysql+pymysql",
    host=os.environ["DB_HOST"],
    port=int(os.environ.get("DB_PORT", "3306")),
    username=os.environ["DB_USER"],
    password=os.environ["DB_PASSWORD"],
    database=os.environ["DB_NAME"],
)

with create_engine(url, poolclass=pool.NullPool).connect() as connection:
    context.configure(connection=connection)
    with context.begin_transaction():
        context.run_migrations()
