"""The keys in the database, read-only: the view `once_keys` that `once schema` creates. Raw keys are never stored."""
from __future__ import annotations

from django.db import models


class IdempotencyKey(models.Model):
    id = models.CharField(max_length=64, primary_key=True)  # an HMAC of scope and key
    tenant = models.TextField()
    route = models.TextField()
    state = models.CharField(max_length=20)  # started, lapsed, succeeded, failed, unknown, released, tombstone
    attempt = models.IntegerField()
    fence = models.BigIntegerField()
    started_at = models.DateTimeField()
    lease_until = models.DateTimeField(null=True)
    expires_at = models.DateTimeField()
    expired = models.BooleanField()
    body_kept = models.BooleanField()
    outcome_bytes = models.IntegerField(null=True)

    class Meta:
        managed = False
        db_table = "once_keys"
        ordering = ["-started_at"]

    def __str__(self) -> str:
        return f"{self.id[:12]} {self.state}"
