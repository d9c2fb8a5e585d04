"""Settings of the service. WORKFLOW_DATABASE is a postgres:// URL with Once's schema in it, WORKFLOW_TOKEN_SECRET the file
that tokens are signed with, ONCE_BINARY and ONCE_CONFIG are for the cleanup command."""
import os
import pathlib
import urllib.parse

_database = urllib.parse.urlsplit(os.environ["WORKFLOW_DATABASE"])

TOKEN_SECRET = pathlib.Path(os.environ["WORKFLOW_TOKEN_SECRET"]).read_text().strip()
SECRET_KEY = TOKEN_SECRET
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
INSTALLED_APPS = ["core", "workflows"]
MIDDLEWARE = []
ROOT_URLCONF = "service.urls"
DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": _database.path[1:], "HOST": _database.hostname,
                         "PORT": _database.port, "USER": _database.username, "PASSWORD": _database.password or ""}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

ONCE_BINARY = os.environ.get("ONCE_BINARY", "once")
ONCE_CONFIG = os.environ.get("ONCE_CONFIG", "/etc/once/once.yaml")
