"""A body that fills every buffer on its way, there and back."""
import os
import threading

LARGE = os.urandom(1024) * 8192  # 8 MiB
SETTINGS = ("defaults.max_request_body=16MiB", "defaults.record.max_body=16MiB")  # with a key it is held, and recorded


def echo(request, connection):
    """The backend's handler."""
    connection.reply(200, body=request.body)


def check_both_ways(test, client):
    """Streamed without a key, held with one."""
    for key in (None, "large"):
        with test.subTest(key=key):
            # Sent beside reading: what comes back begins before all of it was sent.
            sender = threading.Thread(target=client.send_request, kwargs={"body": LARGE, "key": key})
            sender.start()
            answer = client.read_response()
            sender.join()
            test.assertEqual(answer.body, LARGE)
