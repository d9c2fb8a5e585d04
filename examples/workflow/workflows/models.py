import uuid

from django.db import models


class Organization(models.Model):
    name = models.CharField(max_length=100, unique=True)
    quota = models.IntegerField()
    used = models.IntegerField(default=0)


class Workflow(models.Model):
    organization = models.ForeignKey(Organization, on_delete=models.CASCADE)
    name = models.CharField(max_length=100)


class ValidationRun(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    workflow = models.ForeignKey(Workflow, on_delete=models.CASCADE)
    model = models.CharField(max_length=200)
    findings = models.JSONField()
    created_at = models.DateTimeField(auto_now_add=True)
