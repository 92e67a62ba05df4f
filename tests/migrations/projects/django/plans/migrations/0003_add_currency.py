"""Add the column currency, with the slow statement of the harness."""

import os

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("plans", "0002_insert_plans")]
    operations = [
        migrations.RunSQL(
            os.environ["ADD_CURRENCY"],
            state_operations=[
                migrations.AddField("plan", "currency", models.CharField(default="EUR", max_length=3)),
            ],
        ),
    ]
