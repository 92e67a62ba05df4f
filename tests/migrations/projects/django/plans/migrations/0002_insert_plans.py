"""Insert many plans, with the statement of the harness."""

import os

from django.db import migrations


def insert(_, schema_editor):
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(os.environ["INSERT_PLANS"])


class Migration(migrations.Migration):
    dependencies = [("plans", "0001_create_plans")]
    operations = [migrations.RunPython(insert)]
