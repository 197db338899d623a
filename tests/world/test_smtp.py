"""The mail server, with the standard library's own client."""

from __future__ import annotations

import json
import smtplib
import socket
import string
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from email.message import EmailMessage
from pathlib import Path
from select import select

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.events.seen import Effected, Operated, Spoiled
from chaos.journal import Journal
from chaos.targets.command.script import Route, Script
from chaos.world.mishaps import Lose
from chaos.world.server import World
from chaos.world.smtp import called

Serve = Callable[..., World]


@pytest.fixture
def serve(journal: Journal) -> Iterator[Serve]:
    with ExitStack() as stack:

        def served(route: Route | None = None) -> World:
            world = stack.enter_context(World(Script((), {"mail.smtp": route or Route()}, ""), journal))
            stack.callback(lambda: check(world))
            return world

        yield served


def check(world: World) -> None:
    assert world.failure is None


def client(world: World) -> smtplib.SMTP:
    env = world.env()
    return smtplib.SMTP(env["CHAOS_SMTP_HOST"], int(env["CHAOS_SMTP_PORT"]), timeout=10)


def message(text: str = "Please pay.\n..and soon\n", **headers: str) -> EmailMessage:
    made = EmailMessage()
    made["From"], made["To"], made["Subject"] = "us@example.org", "ada@example.org, bo@example.org", "Grüße"
    for name, value in headers.items():
        made[name.replace("_", "-")] = value
    made.set_content(text)
    return made


def ledger(journal: Journal) -> list[Effected]:
    return [one for one in journal.events if isinstance(one, Effected)]


def test_a_message_is_in_the_ledger(serve: Serve, journal: Journal) -> None:
    with client(serve()) as mail:
        mail.login("anybody", "secret")
        mail.send_message(message())
        (sent,) = ledger(journal)
    assert (sent.service, sent.operation, sent.key, sent.deduplicated) == ("mail", "smtp", None, False)
    payload = json.loads(sent.payload)
    asked = called("us@example.org", ["ada@example.org", "bo@example.org"], message().as_bytes())
    assert payload == json.loads(asked.body), "lines that begin with a dot are as they were"
    assert payload.pop("body") and payload == {
        "sender": "us@example.org",
        "recipients": ["ada@example.org", "bo@example.org"],
        "subject": "Grüße",
    }


def test_the_same_message_is_the_same_effect_each_time_it_is_sent(serve: Serve, journal: Journal) -> None:
    """A server does not know a message again by its Message-ID, and its boundaries and dates are other ones."""
    with client(serve()) as mail:
        for day in (1, 2):
            made = message(Date=f"Mon, {day} Jan 2029 10:00:00 +0000", Message_ID="<1@example.org>")
            made.add_attachment(b"\x00\xff", maintype="application", subtype="pdf", filename="bill.pdf")
            mail.send_message(made)
        for other in (b"\x00\xfe", b"\x00\xff\x00"):
            made = message()
            made.add_attachment(other, maintype="application", subtype="pdf", filename="bill.pdf")
            mail.send_message(made)
    one, again, *others = ledger(journal)
    assert one.identity == again.identity and not again.deduplicated
    assert len({one.identity, *(other.identity for other in others)}) == 3


def test_what_is_begun_is_not_sent(serve: Serve, journal: Journal) -> None:
    world = serve()
    with client(world) as mail:
        assert mail.docmd("DATA")[0] == mail.docmd("RCPT", "TO:<a@b>")[0] == 503
        assert mail.docmd("MAIL", "FROM: nobody")[0] == 501
        assert mail.docmd("STARTTLS")[0] == mail.docmd("GIBBERISH")[0] == 502
        assert mail.docmd("AUTH", "CRAM-MD5")[0] == 504
        assert mail.mail("us@b")[0] == mail.rcpt("a@b")[0] == mail.rset()[0] == mail.noop()[0] == 250
        assert mail.docmd("DATA")[0] == 503
    port = world.door.smtp_port
    with socket.create_connection(("127.0.0.1", port), timeout=10) as raw, raw.makefile("rb") as lines:
        for text in (b"HELO me", b"MAIL FROM:<us@b> SIZE=3", b"RCPT TO:<a@b>", b"DATA", b"Subject: x"):
            raw.sendall(text + b"\r\n")
        raw.shutdown(socket.SHUT_WR)
        assert [line[:3] for line in lines] == [b"220", b"250", b"250", b"250", b"354"], "and no word of it being taken"
    assert ledger(journal) == []


@pytest.mark.parametrize(("status", "code"), [(403, 554), (503, 451)])
def test_a_declared_refusal(serve: Serve, journal: Journal, status: int, code: int) -> None:
    route = Route({"error": "no {subject}"}, status, effect=False)
    with client(serve(route)) as mail, pytest.raises(smtplib.SMTPDataError) as error:
        mail.send_message(message())
    assert error.value.smtp_code == code and "no Grüße" in bytes(error.value.smtp_error).decode()
    assert ledger(journal) == []


def test_it_is_held_before_it_is_taken_and_before_that_is_said(serve: Serve, journal: Journal) -> None:
    world = serve()
    world.holds.phases = frozenset({"service_call", "effect"})
    held = world.holds.begin(journal.attempt)
    with client(world) as mail, ThreadPoolExecutor() as pool:
        sending = pool.submit(mail.send_message, message())
        for phase, effects in (("service_call", 0), ("effect", 1)):
            assert select([held], [], [], 10)[0]
            operation = held.receive()
            assert operation is not None and (operation.phase, operation.path) == (phase, "mail.smtp")
            assert len(ledger(journal)) == effects and not sending.done()
            operation.go()
        assert sending.result(10) == {}
    assert [one.phase for one in journal.events if isinstance(one, Operated)] == ["service_call", "effect"]


def test_an_answer_that_is_lost_is_still_an_effect(serve: Serve, journal: Journal) -> None:
    world = serve()
    world.mishaps.arm(Lose(), 1, "services")
    with client(world) as mail, pytest.raises((smtplib.SMTPServerDisconnected, ConnectionError)):
        mail.send_message(message())
    assert len(ledger(journal)) == 1
    assert [(one.how, one.link, one.path) for one in journal.events if isinstance(one, Spoiled)] == [
        ("lost", "services", "mail.smtp")
    ]


def test_connections_are_cut_with_the_world_s(serve: Serve, journal: Journal, tmp_path: Path) -> None:
    world, other = serve(), Journal(tmp_path / "other.jsonl")
    mail, port = client(world), world.door.smtp_port
    world.recall(world.memory(), other)
    assert world.door.smtp_port == port
    with pytest.raises((smtplib.SMTPServerDisconnected, ConnectionError)):
        mail.send_message(message())
    mail.close()
    with client(world) as again:
        again.send_message(message())
    assert ledger(journal) == [] and len(ledger(other)) == 1
    other.close()


def test_who_declares_no_mail_has_no_mail_server(journal: Journal) -> None:
    with World(Script((), {"mail.send": Route()}, ""), journal) as world:
        assert world.door.smtp_port is None and not {name for name in world.env() if "SMTP" in name}


@given(st.binary(), st.lists(st.binary(max_size=20), max_size=3))
def test_any_content_is_a_message(content: bytes, headers: list[bytes]) -> None:
    head = b"".join(
        b"Subject: =?utf-8?b?" + one + b"?=\nContent-Type: multipart/mixed; " + one + b"\n" for one in headers
    )
    assert json.loads(called("a", ["b"], head + b"\n" + content).body).keys() == {
        "sender",
        "recipients",
        "subject",
        "body",
    }


@given(*[st.text(string.ascii_letters + " ")] * 2)
def test_texts_are_the_same_message_only_if_they_are_the_same(one: str, two: str) -> None:
    def body(text: str) -> str:
        made = EmailMessage()
        made.set_content(text, cte="base64")
        return str(json.loads(called("a", ["b"], made.as_bytes()).body)["body"])

    assert body(one) == body(one)
    assert (body(one) == body(two)) == (one == two)
