"""Views of every kind: functions, class-based, and ViewSets of REST Framework whose responses are rendered later."""
import asyncio
import os
import signal

import deeds
from django.db import transaction
from django.http import HttpResponse, JsonResponse, StreamingHttpResponse
from once.django import finish, idempotent
from rest_framework import serializers, viewsets
from rest_framework.decorators import action, api_view
from rest_framework.exceptions import Throttled, ValidationError
from rest_framework.response import Response
from shop.models import Order


def user_of(request):
    """A look-up in the database, as of a token."""
    Order.objects.filter(title="nobody").exists()
    return request.headers.get("X-User")


def order(request):
    claim = request.once
    answer = JsonResponse({"order": deeds.execute(), "attempt": claim and claim.attempt, "bytes": len(request.body),
                           "told": request.headers.get("Idempotency-Attempt"),
                           "claim": bool(request.headers.get("Idempotency-Claim"))}, status=201)
    answer["X-Made"] = "yes"
    answer.set_cookie("seen", "1")
    return answer


def slow(_):
    number = deeds.execute()
    deeds.wait_to_go()
    return JsonResponse({"order": number})


async def slow_async(_):
    number = deeds.execute()
    while not deeds.may_go():
        await asyncio.sleep(0.005)
    return JsonResponse({"order": number})


def broken(_):
    raise RuntimeError(f"execution {deeds.execute()}")


def large(_):
    deeds.execute()
    return StreamingHttpResponse((b"x" * 1024 for _ in range(64)), content_type="text/plain")


def events(_):
    deeds.execute()

    def lines():
        yield b"data: first\n\n"
        deeds.wait_to_go()
        yield b"data: last\n\n"

    return StreamingHttpResponse(lines(), content_type="text/event-stream")


def ping(_):
    return HttpResponse("pong")


async def ping_async(_):
    return HttpResponse("pong")


def by_hand(request):
    """One call in a transaction of its own; then the process dies."""
    with transaction.atomic():
        made = Order.objects.create(title="by hand", attempt=deeds.execute())
        answer = JsonResponse({"order": made.id}, status=201)
        finish(request, answer)
    if request.headers.get("X-Die") == "after":
        os.kill(os.getpid(), signal.SIGKILL)
    return answer


def outside(request):
    answer = JsonResponse({})
    finish(request, answer)
    return answer


@api_view(["POST"])
@idempotent
def by_function(request):
    return Response({"order": Order.objects.create(title="by function", attempt=deeds.execute()).id}, status=201)


class OrderSerializer(serializers.ModelSerializer):
    class Meta:
        model = Order
        fields = ["id", "title", "attempt"]


class OrderViewSet(viewsets.ModelViewSet):
    """create, update and partial_update as REST Framework has them: the middleware protects them. start() is exact."""
    queryset = Order.objects.all()
    serializer_class = OrderSerializer

    def perform_create(self, serializer):
        serializer.save(attempt=deeds.execute())

    def perform_update(self, serializer):
        deeds.execute()
        serializer.save()

    @action(detail=False, methods=["post"])
    @idempotent
    def start(self, request):
        if request.data.get("title") == "invalid":
            raise ValidationError({"title": ["is invalid"]})
        if request.data.get("title") == "throttled":
            raise Throttled
        made = Order.objects.create(title=request.data["title"], attempt=deeds.execute())
        if request.headers.get("X-Die") == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        if request.headers.get("X-Refuse"):
            return Response({"detail": "refused"}, status=int(request.headers["X-Refuse"]))
        return Response(OrderSerializer(made).data, status=201, headers={"X-Made": "yes"})
