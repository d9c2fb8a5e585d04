"""Settings of the service. WORKFLOW_DATABASE is a postgres:// URL, WORKFLOW_RUNNER the folder of the runner of simulations."""
import os
import pathlib
import urllib.parse

BASE = pathlib.Path(__file__).resolve().parents[1]
_database = urllib.parse.urlsplit(os.environ["WORKFLOW_DATABASE"])

SECRET_KEY = os.environ.get("WORKFLOW_SECRET", "for development only")
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "testserver"]
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "rest_framework", "once.django", "validations"]
MIDDLEWARE = ["once.django.Middleware"]
ROOT_URLCONF = "service.urls"
WSGI_APPLICATION = "service.wsgi.application"
DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": _database.path[1:], "HOST": _database.hostname,
                         "PORT": _database.port, "USER": _database.username, "PASSWORD": _database.password or ""}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
REST_FRAMEWORK = {"DEFAULT_AUTHENTICATION_CLASSES": ["validations.auth.TokenAuthentication"], "UNAUTHENTICATED_USER": None,
                  "DEFAULT_PERMISSION_CLASSES": ["validations.auth.OfOrganization"],
                  "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"]}

ONCE = {"config": BASE / "once.yaml", "database": "default", "caller": "validations.auth.organization_of"}
IDEMPOTENCY_KEY_TTL_HOURS = int(os.environ.get("IDEMPOTENCY_KEY_TTL_HOURS", "24"))
RUNNER = pathlib.Path(os.environ.get("WORKFLOW_RUNNER", BASE))
