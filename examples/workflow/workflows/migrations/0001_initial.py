from django.db import migrations, models
import django.db.models.deletion
import uuid


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Organization",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=100, unique=True)),
                ("quota", models.IntegerField()),
                ("used", models.IntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="Workflow",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=100)),
                ("organization", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="workflows.organization")),
            ],
        ),
        migrations.CreateModel(
            name="ValidationRun",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ("model", models.CharField(max_length=200)),
                ("findings", models.JSONField()),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("workflow", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="workflows.workflow")),
            ],
        ),
    ]
