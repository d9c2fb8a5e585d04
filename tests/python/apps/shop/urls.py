from django.urls import include, path
from rest_framework.routers import DefaultRouter
from shop import views

router = DefaultRouter()
router.register("rest", views.OrderViewSet)

urlpatterns = [path("orders", views.order), path("slow", views.slow), path("broken", views.broken), path("large", views.large),
               path("events", views.events), path("ping", views.ping), path("by-hand", views.by_hand),
               path("outside", views.outside), path("", include(router.urls))]
