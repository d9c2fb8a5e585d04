from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    operations = [migrations.CreateModel("Order", [("id", models.BigAutoField(primary_key=True)),
                                                   ("title", models.CharField(max_length=100)),
                                                   ("attempt", models.IntegerField(default=0))])]
