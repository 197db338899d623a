"""Events: what a journal is made of. Frozen structs; the line of one is JSON tagged by "event".

`seen` is what was seen of the agent, `done` what the harness did to it and around it.
"""

from __future__ import annotations

import msgspec

NULL = msgspec.Raw(b"null")
"""No JSON value where one could be: a line stays valid JSON, and `Raw | None` decodes nothing but null."""


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", omit_defaults=True):
    """*at*: seconds since the run began, monotonic. *attempt*: the agent's incarnation, from 1."""

    at: float
    attempt: int
