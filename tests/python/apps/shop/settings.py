"""A Django project with REST Framework. APP_DATABASE is a postgres:// or mysql:// URL, which then is the store, too."""
import os
import urllib.parse

import deeds

SECRET_KEY = "only for tests"
ALLOWED_HOSTS = ["*"]
DEBUG = False
ROOT_URLCONF = "shop.urls"
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "rest_framework", "once.django", "shop"]
MIDDLEWARE = ["once.django.Middleware"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
REST_FRAMEWORK = {"DEFAULT_AUTHENTICATION_CLASSES": [], "DEFAULT_PERMISSION_CLASSES": [], "UNAUTHENTICATED_USER": None}
LOGGING = {"version": 1, "disable_existing_loggers": False, "handlers": {"console": {"class": "logging.StreamHandler"}}, "root": {"handlers": ["console"]}}

_url = urllib.parse.urlsplit(os.environ.get("APP_DATABASE", ""))
if _url.scheme:
    _engine = {"postgres": "postgresql", "postgresql": "postgresql", "mysql": "mysql"}[_url.scheme]
    DATABASES = {"default": {"ENGINE": f"django.db.backends.{_engine}", "NAME": _url.path[1:], "HOST": _url.hostname,
                             "PORT": _url.port, "USER": _url.username, "PASSWORD": _url.password or ""}}
else:
    DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": deeds.DATA / "shop.sqlite3"}}

_settings = {name: value for name, value in deeds.SETTINGS.items() if not (_url.scheme and name == "store")}
ONCE = {"settings": _settings, "caller": "shop.views.user_of", **({"database": "default"} if _url.scheme else {})}
IDEMPOTENCY_KEY_TTL_HOURS = float(os.environ.get("APP_TTL_HOURS", "24"))
