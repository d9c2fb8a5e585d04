"""The Django application: a model over the keys, and `manage.py cleanup_idempotency_keys`."""
from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.core import checks


class OnceConfig(AppConfig):
    name = "once.django"
    label = "once"
    verbose_name = "Once"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        checks.register(check_middleware)


def check_middleware(**_: Any) -> list[Any]:
    """`manage.py check`, and every start, report if nothing is protected."""
    from django.conf import settings
    if any(name in settings.MIDDLEWARE for name in ("once.django.Middleware", "once.django.middleware.Middleware")):
        return []
    return [checks.Warning("once.django is installed, but its middleware is not: no request is protected",
                           hint='add "once.django.Middleware" to MIDDLEWARE', id="once.W001")]
