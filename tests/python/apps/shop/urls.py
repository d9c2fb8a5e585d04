import os

from django.urls import include, path
from rest_framework.routers import DefaultRouter
from shop import views

router = DefaultRouter()
router.register("rest", views.OrderViewSet)

# Under ASGI, Django runs all sync views in one thread.
slow, ping = (views.slow_async, views.ping_async) if os.environ.get("APP_ASYNC") else (views.slow, views.ping)

urlpatterns = [path("orders", views.order), path("slow", slow), path("broken", views.broken), path("large", views.large),
               path("events", views.events), path("ping", ping), path("by-hand", views.by_hand),
               path("outside", views.outside), path("by-function", views.by_function), path("", include(router.urls))]
