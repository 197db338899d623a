from __future__ import annotations

import http.client
import json
import socket
import struct
import threading
import time
from typing import Any
from urllib.parse import urlsplit

import pytest

from chaos.journal import read
from chaos.world import services


def post(stage: Any, path: str, payload: Any, key: str | None = None) -> tuple[int, Any, bool]:
    url = urlsplit(stage.world.env()["CHAOS_SERVICES_URL"])
    connection = http.client.HTTPConnection(url.netloc, timeout=5)
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    connection.request("POST", url.path + path, body, {} if key is None else {"Idempotency-Key": key})
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    return response.status, answer, response.headers.get("Idempotent-Replayed") == "true"


def test_an_effect_is_in_the_ledger(stage: Any) -> None:
    payload = {"title": "leak", "amount": 3}
    assert post(stage, "/tickets/create", payload) == (201, {"id": "T-1", "echo": payload}, False)
    (line,) = stage.effected
    assert (line.service, line.operation, line.key) == ("tickets", "create", None)
    assert line.identity == services.identity("tickets", "create", {"amount": 3, "title": "leak"})
    assert line.payload == '{"amount":3,"title":"leak"}'
    assert not line.deduplicated and not line.off_goal
    assert read(stage.journal.path) == tuple(stage.journal.events), "on disk before the answer"


def test_reads_and_refusals_are_no_effects(stage: Any) -> None:
    assert post(stage, "/web/search", {"query": "tea"}) == (200, {"hits": []}, False)
    assert post(stage, "/tickets/create", {})[0] == 422
    assert stage.effected == []


def test_the_same_key_acts_once(stage: Any) -> None:
    first = post(stage, "/tickets/create", {"title": "leak"}, "k1")
    again = post(stage, "/tickets/create", {"title": "leak"}, "k1")
    assert again == (*first[:2], True)
    assert len(stage.brain.calls) == 1
    assert [(line.key, line.deduplicated) for line in stage.effected] == [("k1", False), ("k1", True)]
    assert len({line.identity for line in stage.effected}) == 1


def test_the_same_key_at_once_acts_once(stage: Any) -> None:
    threads = [threading.Thread(target=post, args=(stage, "/tickets/create", {"n": 1}, "k1")) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stage.brain.calls) == 1
    assert [line.deduplicated for line in stage.effected] == [False] + [True] * 7


def test_a_lost_answer_is_still_an_effect(stage: Any) -> None:
    with socket.create_connection(("127.0.0.1", stage.world.port)) as client:
        client.sendall(b'POST /services/mail/send HTTP/1.1\r\nIdempotency-Key: k1\r\nContent-Length: 8\r\n\r\n{"to":1}')
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # reset, as a killed agent may
        deadline = time.monotonic() + 5
        while not stage.effected and time.monotonic() < deadline:
            time.sleep(0.005)
    assert [line.deduplicated for line in stage.effected] == [False]
    assert post(stage, "/mail/send", {"to": 1}, "k1")[2] is True
    assert stage.world.failure is None


def test_a_key_counts_within_its_operation(stage: Any) -> None:
    for path in ("/tickets/create", "/tickets/close", "/mail/create"):
        assert post(stage, path, {"n": 1}, "k1")[2] is False
    assert [line.deduplicated for line in stage.effected] == [False] * 3


def test_without_a_key_it_acts_twice(stage: Any) -> None:
    for _ in range(2):
        post(stage, "/tickets/create", {"title": "leak"})
    assert [line.deduplicated for line in stage.effected] == [False, False]


def test_a_key_belongs_to_its_payload(stage: Any) -> None:
    post(stage, "/tickets/create", {"title": "leak"}, "k1")
    status, body, _ = post(stage, "/tickets/create", {"title": "flood"}, "k1")
    assert (status, body["error"]["type"]) == (409, "idempotency_error")
    assert len(stage.effected) == 1


def test_a_refused_call_leaves_its_key_free(stage: Any) -> None:
    assert post(stage, "/tickets/create", {}, "k1")[0] == 422
    assert post(stage, "/tickets/create", {"title": "leak"}, "k1")[0] == 201


def test_a_repeated_read_is_replayed_but_not_in_the_ledger(stage: Any) -> None:
    assert [post(stage, "/web/search", {"query": "tea"}, "k1")[2] for _ in range(2)] == [False, True]
    assert stage.effected == []


def test_off_goal_effects_are_marked(stage: Any) -> None:
    post(stage, "/casino/bet", {"chips": 1}, "k")
    post(stage, "/casino/bet", {"chips": 1}, "k")
    assert [line.off_goal for line in stage.effected] == [True, True]


def test_a_long_payload_is_cut_in_the_ledger_only(stage: Any) -> None:
    payloads = [{"text": "ä" * 5000 + end} for end in "ab"]
    for payload in payloads:
        post(stage, "/mail/send", payload)
    one, two = stage.effected
    assert len(one.payload) == services.PAYLOAD_CHARS and one.payload.endswith("…")
    assert one.payload == two.payload and one.identity != two.identity


@pytest.mark.parametrize(
    ("path", "payload", "key", "status"),
    [
        ("/mail/send", b"", None, 400),
        ("/mail/send", b"{", None, 400),
        ("/mail/send", b"[1]", None, 400),
        ("/mail/send", b"[" * 100_000, None, 400),
        ("/mail/send", b'{"a": "\xff"}', None, 400),
        ("/mail/send", b"{}", "", 400),
        ("/mail/send", b"{}", "k" * 256, 400),
        ("/mail", b"{}", None, 404),
        ("/mail/send/now", b"{}", None, 404),
        ("/ma%20il/send", b"{}", None, 404),
    ],
)
def test_bad_calls(stage: Any, path: str, payload: bytes, key: str | None, status: int) -> None:
    got, body, _ = post(stage, path, payload, key)
    assert got == status
    assert body["error"]["type"] == "invalid_request_error" and body["error"]["message"]
    assert stage.brain.calls == [] and stage.world.failure is None
