"""Insert the three plans."""

from django.db import migrations


def insert(apps, _):
    plans = apps.get_model("plans", "Plan").objects
    for name, price_cents in [("free", 0), ("team", 900), ("company", 4900)]:
        plans.create(name=name, price_cents=price_cents)


def delete(apps, _):
    apps.get_model("plans", "Plan").objects.all().delete()


class Migration(migrations.Migration):
    dependencies = [("plans", "0001_create_plans")]
    operations = [migrations.RunPython(insert, delete)]
