"""Which provider's wire format is spoken at which path."""

from __future__ import annotations

from collections.abc import Mapping

from chaos.world import anthropic_messages, gemini, openai_chat, openai_responses
from chaos.world.openai_chat import Dialect, ModelRequest

ENDPOINTS: Mapping[str, Dialect] = {
    "/v1/chat/completions": openai_chat,
    "/v1/responses": openai_responses,
    "/v1/messages": anthropic_messages,
}
"""Where a model is asked; Gemini's paths name the model besides."""


def dialect_of(path: str) -> Dialect | None:
    """Return the wire format of the model's endpoint at *path*, None if there is none."""
    return gemini if gemini.is_path(path) else ENDPOINTS.get(path)


def parsed(path: str, dialect: Dialect, body: bytes) -> ModelRequest:
    """Return the request that *path* and *body* are in *dialect*; raise Malformed with the reason if they are none."""
    request = dialect.parse(body)
    return gemini.asked(path, request) if dialect.STYLE == gemini.STYLE else request


def errors_of(path: str) -> Dialect:
    """Return the wire format in which a client of *path* understands errors, be there an endpoint or not."""
    if path.startswith("/v1beta/") or gemini.is_path(path):
        return gemini
    return anthropic_messages if path.startswith("/v1/messages") else openai_chat
