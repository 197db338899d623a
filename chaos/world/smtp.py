"""A mail server that delivers nothing: what is sent is an effect in the ledger, and a call of `mail.smtp`.

A message is sent when the server has said so after the dot that ends it, and not before. If that answer is lost, the
client does not know whether it was sent, and a server does not know that a message is the same as one before: a
Message-ID is no idempotency key. So a message that is sent again goes out twice, as it does in the world.
"""

from __future__ import annotations

import re
import socketserver
from collections.abc import Sequence
from email import message_from_bytes
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from hashlib import blake2b
from typing import Protocol, cast

from chaos.world.delivery import deliver
from chaos.world.listener import ENDING, MAX_BODY_BYTES, Listener, Response
from chaos.world.routes import Called
from chaos.world.services import Served
from chaos.world.tokens import canonical

SERVICE, OPERATION = "mail", "smtp"
NAME = f"{SERVICE}.{OPERATION}"
LINE_BYTES = 2**16  # RFC 5321 asks for 512 for commands and 1000 for text; clients that send more are not the matter
DIGEST_BYTES = 16
EXTENSIONS = (f"SIZE {MAX_BODY_BYTES}", "8BITMIME", "SMTPUTF8", "AUTH PLAIN LOGIN")

_ADDRESS = re.compile(r"\s*(?:FROM|TO):\s*<([^<>]*)>.*", re.IGNORECASE)


class MailSite(Protocol):
    """What takes the messages."""

    def mail(self, called: Called) -> Response:
        """Return the reply to a message; its body is a line of SMTP."""
        ...


def called(sender: str, recipients: Sequence[str], content: bytes) -> Called:
    """Return the call that a message is: two that say the same are the same call, whatever their dates and ids.

    The digest is of the parts' decoded contents, in their order: the boundaries between them are other ones each time.
    """
    message = message_from_bytes(content)
    body = blake2b(digest_size=DIGEST_BYTES)
    for part in message.walk():
        if not part.is_multipart():
            held = part.get_payload(decode=True)
            text = held if isinstance(held, bytes) else b""
            if part.get_content_maintype() == "text":
                text = text.replace(b"\r\n", b"\n")
            body.update(f"{part.get_content_type()}\0{part.get_filename() or ''}\0{len(text)}\0".encode() + text)
    payload = {
        "sender": sender,
        "recipients": list(recipients),
        "subject": _decoded(str(message.get("Subject", ""))),
        "body": body.hexdigest(),
    }
    return Called(SERVICE, OPERATION, canonical(payload), None)


def _decoded(header: str) -> str:
    """Return what *header* says; as it stands there if it is encoded wrong."""
    text = "".join(header.splitlines())
    try:
        return str(make_header(decode_header(text)))
    except (HeaderParseError, LookupError, ValueError):
        return text


def reply(served: Served) -> Response:
    """Return what the server says to a message: a declared status from 400 on is a refusal, from 500 on for now."""
    if served.status < 400:
        return Response(250, b"250 2.0.0 taken\r\n")
    code = "451 4.3.0" if served.status >= 500 else "554 5.7.1"
    return Response(served.status, f"{code} {' '.join(served.body.decode().split())}\r\n".encode())


class Mail(socketserver.StreamRequestHandler):
    """One connection: a message after the other. Whoever logs in is let in; there is no encryption."""

    disable_nagle_algorithm = True
    server: Listener

    def handle(self) -> None:
        self._begin()
        self._say("220 chaos ESMTP")
        while line := self.rfile.readline(LINE_BYTES):
            verb, _, rest = line.decode(errors="replace").strip().partition(" ")
            verb = verb.upper()
            if verb == "QUIT":
                self._say("221 2.0.0 bye")
                return
            if verb == "DATA" and self._sender is not None and self._recipients:
                if not self._data():
                    return
            elif verb == "EHLO":
                self._begin()
                named = ["chaos", *EXTENSIONS]
                self._say(
                    *(f"250{'-' if more else ' '}{text}" for text, more in zip(named, [*named[1:], ""], strict=True))
                )
            elif verb == "AUTH":
                self._log_in(rest)
            else:
                self._say(self._said(verb, rest))

    def _begin(self) -> None:
        self._sender: str | None = None
        self._recipients: list[str] = []

    def _say(self, *lines: str) -> None:
        self.wfile.write("".join(f"{line}\r\n" for line in lines).encode())

    def _said(self, verb: str, rest: str) -> str:
        """Return the answer to a command that one line answers."""
        address = _ADDRESS.fullmatch(rest)
        if verb in ("HELO", "RSET"):
            self._begin()
            return "250 2.0.0 ok"
        if verb == "NOOP":
            return "250 2.0.0 ok"
        if verb in ("MAIL", "RCPT") and not address:
            return "501 5.5.4 an address stands in <>, after FROM: or TO:"
        if verb == "MAIL" and address:
            self._begin()
            self._sender = address[1]
            return "250 2.1.0 ok"
        if verb in ("RCPT", "DATA") and (self._sender is None or verb == "DATA"):
            return "503 5.5.1 MAIL FROM and RCPT TO come first"
        if verb == "RCPT" and address:
            self._recipients.append(address[1])
            return "250 2.1.5 ok"
        return f"502 5.5.1 {verb[:20]!r} is not served: HELO, EHLO, AUTH, MAIL, RCPT, DATA, RSET, NOOP, QUIT are"

    def _log_in(self, rest: str) -> None:
        """Let anybody in, by PLAIN or by LOGIN, with or without an initial response (RFC 4954)."""
        kind, _, initial = rest.partition(" ")
        asked = {"PLAIN": [""], "LOGIN": ["VXNlcm5hbWU6", "UGFzc3dvcmQ6"]}.get(kind.upper())  # what LOGIN asks, base64
        if asked is None:
            self._say("504 5.5.4 AUTH is by PLAIN or LOGIN")
            return
        for question in asked[1:] if initial else asked:
            self._say(f"334 {question}")
            if not self.rfile.readline(LINE_BYTES):
                return
        self._say("235 2.7.0 let in")

    def _data(self) -> bool:
        """Take a message, and say whether the connection goes on."""
        self._say("354 end with a dot")
        content, size = [], 0
        while (line := self.rfile.readline(LINE_BYTES)) not in (b".\r\n", b".\n"):
            if not line.endswith(b"\n") and len(line) < LINE_BYTES:
                return False  # the client ended in the middle: nothing was sent
            size += len(line)
            if size <= MAX_BODY_BYTES:
                content.append(line[1:] if line.startswith(b".") else line)
        if size > MAX_BODY_BYTES:
            self._say(f"552 5.3.4 a message has at most {MAX_BODY_BYTES} bytes")
            return True
        said = cast(MailSite, self.server.site).mail(called(self._sender or "", self._recipients, b"".join(content)))
        self._begin()
        line = said.body if isinstance(said.body, bytes) else b"".join(said.body)
        if said.spoil is None:
            self.wfile.write(line)
            return True
        deliver(self.connection, b"", (line,), said.spoil, chunked=False)
        return said.spoil.end not in ENDING
