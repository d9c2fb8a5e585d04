"""Validations: expensive, and counted against the quota of the caller's organization."""
import hashlib
import json
import time

from django.db.models import F
from django.http import JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_http_methods

from core.auth import of_organization
from core.idempotency import idempotent
from workflows.models import Organization, ValidationRun, Workflow


def validate(model, seconds):
    """Stands for EnergyPlus: slow, and deterministic for the same model."""
    time.sleep(seconds)
    return {"errors": hashlib.sha256(model.encode()).digest()[0] % 5}


@require_http_methods(["POST"])
@idempotent
@of_organization
def start_validation(request, organization, workflow_id):
    workflow = get_object_or_404(Workflow, id=workflow_id, organization=organization)
    try:
        asked = json.loads(request.body)
        model, seconds = str(asked["model"]), min(float(asked.get("seconds", 0)), 30)
    except (ValueError, KeyError, TypeError):
        return JsonResponse({"error": "expected {\"model\": NAME}"}, status=400)
    findings = validate(model, seconds)
    # Last, and only if quota is left, because the row is locked until the end of the transaction.
    left = Organization.objects.filter(id=organization.id, used__lt=F("quota"))
    if left.update(used=F("used") + 1) == 0:
        return JsonResponse({"error": "the quota is used up"}, status=429)
    run = ValidationRun.objects.create(workflow=workflow, model=model, findings=findings)
    return JsonResponse({"run": str(run.id), "workflow": workflow.id, "model": model, "findings": findings}, status=201)


@require_http_methods(["GET", "POST"])
@of_organization
def workflows(request, organization):
    """Not decorated: the gateway's protection is enough."""
    if request.method == "POST":
        made = Workflow.objects.create(organization=organization, name=json.loads(request.body)["name"])
        return JsonResponse({"id": made.id, "name": made.name}, status=201)
    found = Workflow.objects.filter(organization=organization).order_by("id")
    return JsonResponse({"workflows": [{"id": each.id, "name": each.name} for each in found]})


@require_http_methods(["GET"])
@of_organization
def runs(_, organization, workflow_id):
    found = ValidationRun.objects.filter(workflow_id=workflow_id, workflow__organization=organization).order_by("created_at")
    return JsonResponse({"runs": [str(run.id) for run in found]})


@require_http_methods(["GET"])
@of_organization
def quota(_, organization):
    return JsonResponse({"quota": organization.quota, "used": organization.used})
