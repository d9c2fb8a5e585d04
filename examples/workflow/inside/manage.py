#!/usr/bin/env python3
"""Django's commands: migrate, test, cleanup_idempotency_keys, token."""
import os
import sys

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "service.settings")

from django.core.management import execute_from_command_line  # noqa: E402

execute_from_command_line(sys.argv)
