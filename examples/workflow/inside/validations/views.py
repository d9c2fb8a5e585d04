"""Validations: expensive, and counted against the quota of the organization that asks."""
import hashlib
import time

from django.db.models import F
from django.shortcuts import get_object_or_404
from once.django import idempotent
from rest_framework import serializers, viewsets
from rest_framework.decorators import action, api_view, permission_classes
from rest_framework.response import Response
from validations import runner
from validations.models import Job, Organization, ValidationRun, Workflow


class WorkflowSerializer(serializers.ModelSerializer):
    class Meta:
        model = Workflow
        fields = ["id", "name"]


class Start(serializers.Serializer):
    model = serializers.CharField(max_length=200)
    seconds = serializers.FloatField(default=0, min_value=0, max_value=30)


class WorkflowViewSet(viewsets.ModelViewSet):
    """list, create, update and the others are REST Framework's own: the middleware is all they need."""
    serializer_class = WorkflowSerializer

    def get_queryset(self):
        return Workflow.objects.filter(organization=self.request.user).order_by("id")

    def perform_create(self, serializer):
        serializer.save(organization=self.request.user)

    @action(detail=True, methods=["post"])
    @idempotent
    def start(self, request, pk):
        """The run, the quota and the response are committed together."""
        workflow, asked = self.get_object(), self.asked(request)
        findings = validate(asked["model"], asked["seconds"])
        # Last, and only if there is something left: the row is locked until the end of the transaction.
        if Organization.objects.filter(id=request.user.id, used__lt=F("quota")).update(used=F("used") + 1) == 0:
            return Response({"detail": "the quota is used up"}, status=429)
        run = ValidationRun.objects.create(workflow=workflow, model=asked["model"], findings=findings)
        return Response({"run": run.id, "workflow": workflow.id, "model": run.model, "findings": findings}, status=201)

    @action(detail=True, methods=["post"])
    def simulate(self, request, pk):
        """A job that cannot be rolled back, so no transaction helps. Its name is committed before the runner hears of it, and a
        second attempt finds it by the id of the operation: whatever dies, the runner is given one name."""
        workflow, asked = self.get_object(), self.asked(request)
        claim = request._request.once
        values = {"workflow": workflow, "model": asked["model"]}
        if claim is None:
            job = Job.objects.create(**values)
        else:
            job, _ = Job.objects.get_or_create(operation=claim.operation, defaults=values)
        job.runner_id = runner.submit(str(job.id), job.model)
        job.save(update_fields=["runner_id"])
        return Response({"job": job.id, "runner": job.runner_id}, status=202)

    @action(detail=True, methods=["get"])
    def runs(self, request, pk):
        found = ValidationRun.objects.filter(workflow=self.get_object()).order_by("created_at")
        return Response({"runs": [run.id for run in found]})

    def asked(self, request):
        serializer = Start(data=request.data)
        serializer.is_valid(raise_exception=True)
        return serializer.validated_data


def validate(model, seconds):
    """Stands for EnergyPlus: it takes its time, and the same model has the same findings."""
    time.sleep(seconds)
    return {"errors": hashlib.sha256(model.encode()).digest()[0] % 5}


@api_view(["POST"])
@permission_classes([])
@idempotent
def callback(request):
    """From the runner, at least once. The number of the delivery is its key (once.yaml), so a job is counted once."""
    job = get_object_or_404(Job.objects.select_related("workflow"), id=request.data["job"])
    Organization.objects.filter(id=job.workflow.organization_id).update(used=F("used") + 1)
    job.findings = request.data["findings"]
    job.save(update_fields=["findings"])
    return Response({"job": job.id})


@api_view(["GET"])
def quota(request):
    organization = Organization.objects.get(id=request.user.id)
    return Response({"quota": organization.quota, "used": organization.used})
