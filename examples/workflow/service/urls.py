from django.urls import path

from workflows import views

urlpatterns = [path("api/workflows/", views.workflows),
               path("api/workflows/<int:workflow_id>/start/", views.start_validation),
               path("api/workflows/<int:workflow_id>/runs/", views.runs),
               path("api/quota/", views.quota)]
