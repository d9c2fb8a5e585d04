"""Prints a new token for an organization, which is made if there is none of that name."""
from django.core.management.base import BaseCommand
from validations.auth import make_token
from validations.models import Organization, Workflow


class Command(BaseCommand):
    help = "Prints a new token for an organization, with a quota of ten validations and one workflow."

    def add_arguments(self, parser):
        parser.add_argument("organization")
        parser.add_argument("--quota", type=int, default=10)

    def handle(self, *_, organization, quota, **__):
        made, new = Organization.objects.get_or_create(name=organization, defaults={"quota": quota})
        if new:
            Workflow.objects.create(organization=made, name="energy")
        self.stdout.write(make_token(made))
