"""Removes expired keys. For a scheduler: 0 3 * * * manage.py cleanup_idempotency_keys"""
from __future__ import annotations

import threading
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError

from once.django import opening
from once.results import OnceError


class Command(BaseCommand):
    help = "Removes idempotency keys that have expired."

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("--every", type=float, metavar="SECONDS", help="repeat, where there is no scheduler")

    def handle(self, *_: Any, every: float | None = None, **__: Any) -> None:
        if not every:
            self.clean_up()
            return
        while True:
            try:
                self.clean_up()
            except CommandError as error:  # a database that is down will come back
                self.stderr.write(str(error))
            threading.Event().wait(every)

    def clean_up(self) -> None:
        try:
            removed = opening.gate().sweep()
        except (OnceError, ImproperlyConfigured) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{removed} expired keys removed")
        self.stdout.flush()
