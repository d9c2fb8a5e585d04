"""Removes keys that have expired. For a timer: 0 3 * * * manage.py cleanup_idempotency_keys"""
import subprocess
import time

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError


class Command(BaseCommand):
    help = "Removes idempotency keys that have expired."

    def add_arguments(self, parser):
        parser.add_argument("--every", type=float, metavar="SECONDS", help="do it again and again, where there is no cron")

    def handle(self, *_, every, **__):
        if not every:
            self.clean_up()
        while every:
            try:
                self.clean_up()
            except CommandError as error:  # a database that is away comes back
                self.stderr.write(str(error))
            time.sleep(every)

    def clean_up(self):
        done = subprocess.run([settings.ONCE_BINARY, "sweep", "--config", settings.ONCE_CONFIG], capture_output=True, text=True)
        if done.returncode != 0:
            raise CommandError(done.stderr.strip())
        self.stdout.write(done.stdout.strip())
        self.stdout.flush()
