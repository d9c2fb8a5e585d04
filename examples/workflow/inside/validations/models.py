import uuid

from django.db import models


class Organization(models.Model):
    name = models.CharField(max_length=100, unique=True)
    quota = models.IntegerField()
    used = models.IntegerField(default=0)


class Token(models.Model):
    """An opaque token; what is kept of it is its SHA-256."""
    digest = models.CharField(max_length=64, primary_key=True)
    organization = models.ForeignKey(Organization, on_delete=models.CASCADE)


class Workflow(models.Model):
    organization = models.ForeignKey(Organization, on_delete=models.CASCADE)
    name = models.CharField(max_length=100)


class ValidationRun(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    workflow = models.ForeignKey(Workflow, on_delete=models.CASCADE)
    model = models.CharField(max_length=200)
    findings = models.JSONField()
    created_at = models.DateTimeField(auto_now_add=True)


class Job(models.Model):
    """A simulation on a machine of somebody else. `operation` is Once's id of the request: a second attempt finds the same job."""
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    operation = models.CharField(max_length=64, null=True, unique=True)
    workflow = models.ForeignKey(Workflow, on_delete=models.CASCADE)
    model = models.CharField(max_length=200)
    runner_id = models.CharField(max_length=100, blank=True)
    findings = models.JSONField(null=True)
