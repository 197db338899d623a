"""The checkpoints of a namespace as the trees that their links to parents make, and what contradicts them.

A version of a channel is made once, by one checkpoint. Who has read it comes after that checkpoint, whatever the stored
link says: this tells a link that was cut or leads elsewhere from a fork, which is one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from chaos.audit import Finding
from chaos.audit.stored import Checkpoint, Content, Key

_COPY = "fork"
"""The source of a checkpoint that is a copy of another one."""


_FIRST_STEP = -1
"""The step of the checkpoint that takes in the first input of a thread."""


class Forest:
    """The trees of *checkpoints*; *findings* are of kind "unlinked", *broken* the checkpoints that they are about.

    *numbered* tells that versions are plain numbers, which do not say who made them.
    """

    def __init__(self, checkpoints: Mapping[str, Checkpoint]) -> None:
        self._checkpoints = checkpoints
        self._span = _spans(checkpoints)
        contents = [one.content for one in checkpoints.values() if one.content is not None]
        self.numbered = any("." not in version for content in contents for version in content.versions.values())
        found: dict[str, str] = {}
        for one in checkpoints.values():
            if why := self._trouble(one):
                found[one.id] = why
        if not self.numbered:
            for id, why in self._contradictions().items():
                found.setdefault(id, why)
        self.broken = found.keys()
        self.findings = [Finding("unlinked", str(checkpoints[id]), why) for id, why in found.items()]

    def _trouble(self, one: Checkpoint) -> str:
        """Return what is wrong with the link of *one* by itself."""
        if one.parent is None:
            # By its step or, where that one was pruned, by its id: of two that a clock was set back between, the id
            # does not tell which came first.
            first = one.step == _FIRST_STEP or one.id == next(iter(self._checkpoints))
            return "" if first or one.source == _COPY else "it has no parent, and is not the first"
        parent = self._checkpoints.get(one.parent)
        if parent is None:
            return f"its parent, checkpoint {one.parent}, is not there"
        if one.id not in self._span:
            return "its ancestors are a circle"
        if one.step is not None and parent.step is not None and parent.step >= one.step:
            return f"its parent, {parent}, is no step before it"
        return ""

    def _contradictions(self) -> dict[str, str]:
        """Return whose link leads past a checkpoint that it must come after."""
        makers: Mapping[Key, list[str]] = defaultdict(list)
        for one in self._checkpoints.values():
            before = self._content(one.parent)
            for channel, version in one.content.versions.items() if one.content else ():
                if before is None or before.versions.get(channel) != version:
                    makers[Key(channel, version)].append(one.id)
        found: dict[str, str] = {}
        for makers_ in makers.values():
            first, *others = makers_  # in the order of their ids, which is that of time
            found |= {id: self._past(first) for id in others if id not in found and not self._is_copy(id, first)}
        for one in self._checkpoints.values():
            for key in one.content.seen if one.content else ():
                known = makers.get(key, [])
                if known and not any(self._is_before(maker, one.id) for maker in known):
                    found.setdefault(one.id, self._past(known[0]))
        return {id: why for id, why in found.items() if not self._is_below(id, found)}

    def _is_copy(self, id: str, other: str) -> bool:
        """Tell whether the checkpoint *id* may be a copy of *other*: it has the same parent, and the same versions."""
        one = self._checkpoints[id]
        return one.source == _COPY and one.parent == self._checkpoints[other].parent

    def _past(self, id: str) -> str:
        return f"its chain of parents leads past {self._checkpoints[id]}, whose versions it has read"

    def _is_below(self, id: str, broken: Mapping[str, str]) -> bool:
        """Tell whether a broken link above *id* explains what is wrong with it."""
        return any(other != id and self._is_before(other, id) for other in broken)

    def _is_before(self, one: str, other: str) -> bool:
        """Tell whether *one* is *other* or an ancestor of it."""
        if one not in self._span or other not in self._span:
            return one == other
        (begin, end), (at, _) = self._span[one], self._span[other]
        return begin <= at < end

    def _content(self, id: str | None) -> Content | None:
        one = self._checkpoints.get(id or "")
        return one.content if one else None


def _spans(checkpoints: Mapping[str, Checkpoint]) -> dict[str, tuple[int, int]]:
    """Return for each checkpoint the half-open range of numbers that it and its descendants have; none in a circle."""
    children: Mapping[str | None, list[str]] = defaultdict(list)
    roots: list[str] = []
    for one in checkpoints.values():
        (children[one.parent] if one.parent in checkpoints else roots).append(one.id)
    begins: dict[str, int] = {}
    spans: dict[str, tuple[int, int]] = {}
    stack = [(id, False) for id in reversed(roots)]
    while stack:
        id, done = stack.pop()
        if done:
            spans[id] = begins[id], len(begins)
            continue
        begins[id] = len(begins)
        stack.append((id, True))
        stack += ((child, False) for child in children[id])
    return spans
