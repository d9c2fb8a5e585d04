"""The service's own tests: `just test`, or manage.py test. They need PostgreSQL only."""
import pathlib
import tempfile
import uuid
from unittest import mock

from django.conf import settings
from django.test import TransactionTestCase
from once.django import opening
from once.django.models import IdempotencyKey
from rest_framework.test import APIClient
from validations.auth import make_token
from validations.models import Job, Organization, ValidationRun, Workflow


def tearDownModule():
    opening.close()  # before the test database is removed


class Idempotency(TransactionTestCase):
    def setUp(self):
        self.organization, self.workflow, self.client = self.join("acme")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.runner = pathlib.Path(folder.name)
        self.enterContext(mock.patch.object(settings, "RUNNER", self.runner))

    def join(self, name):
        organization = Organization.objects.create(name=name, quota=3)
        client = APIClient(raise_request_exception=False)
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {make_token(organization)}")
        return organization, Workflow.objects.create(organization=organization, name="energy"), client

    def post(self, path, body, key=None, client=None, method="post"):
        fields = {"HTTP_IDEMPOTENCY_KEY": key} if key else {}
        return getattr(client or self.client, method)(path, body, format="json", **fields)

    def start(self, key=None, model="office", **named):
        return self.post(f"/api/workflows/{self.workflow.id}/start/", {"model": model}, key, **named)

    def used(self):
        self.organization.refresh_from_db()
        return self.organization.used

    def test_a_retry_gets_the_first_response(self):
        key = str(uuid.uuid4())
        first, again = self.start(key), self.start(key)
        self.assertEqual((first.status_code, again.status_code, again.content), (201, 201, first.content))
        self.assertEqual(again["Idempotent-Replayed"], "true")
        self.assertEqual(again["Original-Request-Id"], first["X-Request-Id"])
        self.assertEqual((self.used(), ValidationRun.objects.count()), (1, 1))

    def test_another_body_is_refused(self):
        key = str(uuid.uuid4())
        self.start(key)
        self.assertEqual(self.start(key, model="tower").status_code, 422)

    def test_put_and_patch_are_covered(self):
        for method in ("put", "patch"):
            key = str(uuid.uuid4())
            path = f"/api/workflows/{self.workflow.id}/"
            answers = [self.post(path, {"name": method}, key, method=method) for _ in range(2)]
            self.assertEqual([answer["Idempotency-Status"] for answer in answers], ["executed", "replayed"])

    def test_a_key_is_the_organizations_own_whatever_token_it_shows(self):
        key = str(uuid.uuid4())
        first = self.post("/api/workflows/", {"name": "daylight"}, key)
        self.client.credentials(HTTP_AUTHORIZATION=f"Bearer {make_token(self.organization)}")
        self.assertEqual(self.post("/api/workflows/", {"name": "daylight"}, key).content, first.content)
        _, _, other = self.join("umbrella")
        self.assertEqual(self.post("/api/workflows/", {"name": "daylight"}, key, client=other)["Idempotency-Status"], "executed")
        other.credentials(HTTP_AUTHORIZATION="Bearer nobody")
        self.assertEqual(self.post("/api/workflows/", {"name": "daylight"}, key, client=other).status_code, 401)

    def test_a_refused_start_is_not_counted_and_may_come_back(self):
        for _ in range(3):
            self.start(str(uuid.uuid4()))
        key = str(uuid.uuid4())
        self.assertEqual([self.start(key).status_code for _ in range(2)], [429, 429])
        Organization.objects.filter(id=self.organization.id).update(quota=4)
        self.assertEqual(self.start(key).status_code, 201)

    def test_a_job_is_started_once_although_the_first_attempt_failed_after_it(self):
        key, path = str(uuid.uuid4()), f"/api/workflows/{self.workflow.id}/simulate/"
        with mock.patch.object(Job, "save", side_effect=RuntimeError("the database went away"), autospec=True):
            with mock.patch.object(Job.objects, "get_or_create", wraps=Job.objects.get_or_create) as made:
                made.side_effect = lambda **named: (Job.objects.bulk_create([Job(operation=named["operation"], **named["defaults"])])[0], True)
                self.assertEqual(self.post(path, {"model": "office"}, key).status_code, 500)
        again = self.post(path, {"model": "office"}, key)
        self.assertEqual((again.status_code, again["Idempotency-Status"]), (202, "executed"))
        self.assertEqual((self.runner / "runner-started").read_text().split(), [again.json()["job"]])

    def test_a_callback_is_counted_once(self):
        job = self.post(f"/api/workflows/{self.workflow.id}/simulate/", {"model": "office"}, str(uuid.uuid4())).json()["job"]
        delivery = {"delivery": "7", "job": job, "findings": {"errors": 0}}
        answers = [self.post("/api/jobs/callback/", delivery, client=APIClient()) for _ in range(2)]
        self.assertEqual([(answer.status_code, answer["Idempotency-Status"]) for answer in answers], [(200, "executed"), (200, "replayed")])
        self.assertEqual(self.used(), 1)

    def test_the_keys_can_be_read(self):
        self.start(str(uuid.uuid4()))
        newest = IdempotencyKey.objects.first()
        self.assertEqual((newest.state, newest.attempt), ("succeeded", 1))
        self.assertAlmostEqual((newest.expires_at - newest.started_at).total_seconds(), settings.IDEMPOTENCY_KEY_TTL_HOURS * 3600, delta=60)
