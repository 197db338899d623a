"""What came of a stream is the answer."""

from __future__ import annotations

from chaos.targets.planted.catch import LAST, Catch
from chaos.targets.planted.driver import Driver
from chaos.targets.reference.agent import Completion
from chaos.targets.reference.model import Model
from chaos.targets.reference.stream import Stream

CATCH = Catch(
    f"stream_cut@{LAST}/before_think",  # the last word, or all that is left out would break with it
    "streams",
    "a reply that was truncated was taken for the last word",
    fault={"kind": "stream_cut"},
    breaks=frozenset({"state"}),  # it has half a sentence at its end
    options={"stream": True},
)


class TruncatedStreamTaken(Driver):
    """Joins the pieces of a stream until there are no more, and never looks for the end of the reply.

    In real agents: `"".join(chunk.delta.content for chunk in stream)`. A response that ends early raises nothing in
    any SDK, and a text that breaks off before its tool call looks like a last word.
    Exposed by `stream_cut` with `how: truncated`. Must be caught by `streams` (taken for an answer).
    """

    def client(self) -> type[Model]:
        return _Model


class _Model(Model):
    def whole(self, stream: Stream) -> Completion:
        return stream.completion()
