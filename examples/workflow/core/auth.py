"""The caller: the organization in a signed token."""
import functools
import time

import jwt
from django.conf import settings
from django.http import JsonResponse

from workflows.models import Organization


def token_for(organization, lasts=3600):
    return jwt.encode({"org": organization, "exp": int(time.time()) + lasts}, settings.TOKEN_SECRET, "HS256")


def of_organization(view):
    """Calls view(request, organization, …)."""
    @functools.wraps(view)
    def checked(request, *arguments, **named):
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        try:
            claims = jwt.decode(token if scheme == "Bearer" else "", settings.TOKEN_SECRET, algorithms=["HS256"],
                                options={"require": ["exp", "org"]})
            organization = Organization.objects.get(name=claims["org"])
        except (jwt.InvalidTokenError, Organization.DoesNotExist):
            return JsonResponse({"error": "a valid token is required"}, status=401)
        return view(request, organization, *arguments, **named)

    return checked
