from django.urls import include, path
from rest_framework.routers import DefaultRouter
from validations import views

router = DefaultRouter()
router.register("workflows", views.WorkflowViewSet, basename="workflow")

urlpatterns = [path("api/", include(router.urls)), path("api/quota/", views.quota), path("api/jobs/callback/", views.callback)]
