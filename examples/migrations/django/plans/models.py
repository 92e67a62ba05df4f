"""The table plans."""

from django.db import models


class Plan(models.Model):
    name = models.CharField(max_length=40, unique=True)
    price_cents = models.IntegerField()
    currency = models.CharField(max_length=3, default="EUR")

    class Meta:
        db_table = "plans"
