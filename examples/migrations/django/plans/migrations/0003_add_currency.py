"""Add the column currency."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("plans", "0002_insert_plans")]
    operations = [
        migrations.AddField("plan", "currency", models.CharField(default="EUR", max_length=3)),
    ]
