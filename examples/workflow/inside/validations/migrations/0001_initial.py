import uuid

import django.db.models.deletion
from django.db import migrations, models

CASCADE = django.db.models.deletion.CASCADE


class Migration(migrations.Migration):
    initial = True
    dependencies = [("once", "0001_keys")]
    operations = [
        migrations.CreateModel("Organization", [
            ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ("name", models.CharField(max_length=100, unique=True)), ("quota", models.IntegerField()),
            ("used", models.IntegerField(default=0))]),
        migrations.CreateModel("Token", [
            ("digest", models.CharField(max_length=64, primary_key=True, serialize=False)),
            ("organization", models.ForeignKey(on_delete=CASCADE, to="validations.organization"))]),
        migrations.CreateModel("Workflow", [
            ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ("organization", models.ForeignKey(on_delete=CASCADE, to="validations.organization")),
            ("name", models.CharField(max_length=100))]),
        migrations.CreateModel("ValidationRun", [
            ("id", models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
            ("workflow", models.ForeignKey(on_delete=CASCADE, to="validations.workflow")),
            ("model", models.CharField(max_length=200)), ("findings", models.JSONField()),
            ("created_at", models.DateTimeField(auto_now_add=True))]),
        migrations.CreateModel("Job", [
            ("id", models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
            ("operation", models.CharField(max_length=64, null=True, unique=True)),
            ("workflow", models.ForeignKey(on_delete=CASCADE, to="validations.workflow")),
            ("model", models.CharField(max_length=200)), ("runner_id", models.CharField(blank=True, max_length=100)),
            ("findings", models.JSONField(null=True))]),
    ]
