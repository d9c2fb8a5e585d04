"""Once's tables and functions in PostgreSQL, from the script in the wheel, and the model that reads them.

Creates nothing on a database that is not the store. On MySQL, and with a wheel without the script, use `once schema`.
"""
import pathlib

from django.core.exceptions import ImproperlyConfigured
from django.db import migrations, models

from once.django.opening import once_settings

SCRIPT = pathlib.Path(__file__).parents[2] / "schema" / "postgres.sql"


def apply(_, editor):
    connection = editor.connection
    if once_settings().get("database") != connection.alias:
        return
    if "once_operations" in connection.introspection.table_names():
        return
    if connection.vendor != "postgresql" or not SCRIPT.exists():
        raise ImproperlyConfigured(f"the database {connection.alias!r} has no tables of Once: run `once schema {connection.vendor} --apply URL` first")
    with connection.cursor() as cursor:
        cursor.execute(SCRIPT.read_text())


class Migration(migrations.Migration):
    initial = True
    atomic = False  # the script has a transaction of its own
    operations = [
        migrations.RunPython(apply, migrations.RunPython.noop),
        migrations.CreateModel("IdempotencyKey", [
            ("id", models.CharField(max_length=64, primary_key=True, serialize=False)),
            ("tenant", models.TextField()), ("route", models.TextField()), ("state", models.CharField(max_length=20)),
            ("attempt", models.IntegerField()), ("fence", models.BigIntegerField()), ("started_at", models.DateTimeField()),
            ("lease_until", models.DateTimeField(null=True)), ("expires_at", models.DateTimeField()), ("expired", models.BooleanField()),
            ("body_kept", models.BooleanField()), ("outcome_bytes", models.IntegerField(null=True)),
        ], options={"db_table": "once_keys", "ordering": ["-started_at"], "managed": False}),
    ]
