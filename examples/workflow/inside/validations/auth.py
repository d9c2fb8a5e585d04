"""Who asks: the organization that an opaque token belongs to. Both REST Framework and Once look it up here."""
import hashlib
import secrets

from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import BasePermission
from validations.models import Organization, Token


def make_token(organization):
    token = secrets.token_urlsafe(24)
    Token.objects.create(digest=digest_of(token), organization=organization)
    return token


def digest_of(token):
    return hashlib.sha256(token.encode()).hexdigest()


def found(header):
    scheme, _, token = header.partition(" ")
    return Organization.objects.filter(token__digest=digest_of(token)).first() if scheme == "Bearer" else None


def organization_of(request):
    """For Once: whose key it is. Another token of the same organization keeps its keys."""
    organization = found(request.headers.get("Authorization", ""))
    return organization and organization.id


class TokenAuthentication(BaseAuthentication):
    def authenticate(self, request):
        header = request.headers.get("Authorization", "")
        if not header:
            return None
        organization = found(header)
        if organization is None:
            raise AuthenticationFailed("a valid token is required")
        return organization, None

    def authenticate_header(self, request):
        return "Bearer"


class OfOrganization(BasePermission):
    def has_permission(self, request, view):
        return isinstance(request.user, Organization)
