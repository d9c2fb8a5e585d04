"""Once for Django and Django REST Framework.

    INSTALLED_APPS = [..., "once.django"]                    # the model and the cleanup command
    MIDDLEWARE = [..., "once.django.Middleware"]             # after the middleware that `caller` needs
    ONCE = {"database": "default", "settings": {"defaults.dialect": "workflow"}, "caller": "core.auth.organization_of"}

Every view is protected by the middleware. @idempotent is for views whose work and response must be committed together.
"""
from once.django.finishing import finish, idempotent
from once.django.middleware import Middleware

__all__ = ["Middleware", "finish", "idempotent"]
