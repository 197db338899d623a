"""What can be wrong with a connection, as Toxiproxy 2.12 does it (https://github.com/Shopify/toxiproxy, toxics/).

A toxic pipes the chunks of one direction of one connection from a stage's inbox to its outbox; its fields are its
attributes, in Toxiproxy's units. Probability and direction are the proxy's matter, never the toxic's.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from chaos.toxiproxy.pipeline import Stage

TICK_SECONDS = 0.1  # a slow connection sends what a tenth of a second may carry, ten times a second


class Toxic(Protocol):
    """A frozen dataclass with whole numbers for fields, 0 by default."""

    async def pipe(self, stage: Stage) -> None:
        """Pass chunks on until the stage is closed; cancelled, what the stage holds goes on untouched."""
        ...


@dataclass(frozen=True)
class Noop:
    """Passes everything on; the head of each chain, and what a toxic is on a connection that it spares."""

    async def pipe(self, stage: Stage) -> None:
        while chunk := await stage.next():
            await stage.send(chunk.data)


@dataclass(frozen=True)
class Latency:
    """Delays each chunk by *latency* ms, give or take *jitter*; chunks wait side by side, not one after the other."""

    latency: int = 0
    jitter: int = 0

    async def pipe(self, stage: Stage) -> None:
        while chunk := await stage.next():
            swing = stage.rng.randrange(-self.jitter, self.jitter) if self.jitter > 0 else 0
            await stage.sleep_until(chunk.since + (self.latency + swing) / 1000)
            await stage.send(chunk.data)


@dataclass(frozen=True)
class Bandwidth:
    """Lets *rate* KB pass in a second; with 0, nothing."""

    rate: int = 0

    async def pipe(self, stage: Stage) -> None:
        due = 0.0
        tick = max(0, self.rate) * 100  # bytes
        while chunk := await stage.next():
            due = max(due, stage.now())
            data = chunk.data
            while len(data) > tick:
                due += TICK_SECONDS
                await stage.sleep_until(due)
                if tick:
                    await stage.send(data[:tick], rest=data[tick:])
                    data = data[tick:]
            due += len(data) / (self.rate * 1000) if self.rate > 0 else 0.0
            await stage.sleep_until(due)
            await stage.send(data)


@dataclass(frozen=True)
class ResetPeer:
    """Closes the connection *timeout* ms after its first bytes, by TCP RST if the toxic was there when it began."""

    timeout: int = 0

    async def pipe(self, stage: Stage) -> None:
        await stage.next(closes=False)
        stage.drop()
        stage.deaf = True  # once begun it cannot be stopped
        await stage.sleep_until(stage.now() + self.timeout / 1000)
        stage.close()


@dataclass(frozen=True)
class Timeout:
    """Drops everything, and closes the connection when nothing came for *timeout* ms; 0 never does."""

    timeout: int = 0

    async def pipe(self, stage: Stage) -> None:
        while await stage.next(self.timeout / 1000 if self.timeout > 0 else None):
            stage.drop()


@dataclass(frozen=True)
class SlowClose:
    """Keeps the connection from closing for *delay* ms."""

    delay: int = 0

    async def pipe(self, stage: Stage) -> None:
        while chunk := await stage.next(closes=False):
            await stage.send(chunk.data)
        await stage.sleep_until(stage.now() + self.delay / 1000)
        stage.close()


@dataclass(frozen=True)
class LimitData:
    """Closes the connection when *bytes* have passed; the count outlives a change of the toxic."""

    bytes: int = 0

    async def pipe(self, stage: Stage) -> None:
        while chunk := await stage.next():
            left = max(0, self.bytes - stage.passed)
            if left:
                await stage.send(chunk.data[:left])
            if self.bytes - stage.passed <= 0:
                stage.drop()
                stage.close()
                return


@dataclass(frozen=True)
class Slicer:
    """Cuts chunks into pieces of *average_size* bytes, give or take *size_variation*, *delay* microseconds apart."""

    average_size: int = 0
    size_variation: int = 0
    delay: int = 0

    async def pipe(self, stage: Stage) -> None:
        while chunk := await stage.next():
            rest = chunk.data
            for size in self.pieces(len(rest), stage.rng):
                piece, rest = rest[:size], rest[size:]
                await stage.send(piece, rest=rest)
                await stage.sleep_until(stage.now() + self.delay / 1_000_000)

    def pieces(self, size: int, rng: Random) -> list[int]:
        """Return the sizes that *size* bytes are cut into: halved, and the halves again."""
        if size - self.average_size <= self.size_variation:
            return [size]
        swing = rng.randrange(-self.size_variation, self.size_variation) if self.size_variation > 0 else 0
        left = size // 2 + swing
        if not 0 < left < size:  # the real server does not come back from here
            return [size]
        return [*self.pieces(left, rng), *self.pieces(size - left, rng)]


KINDS: dict[str, type[Toxic]] = {
    "noop": Noop,
    "latency": Latency,
    "bandwidth": Bandwidth,
    "reset_peer": ResetPeer,
    "timeout": Timeout,
    "slow_close": SlowClose,
    "limit_data": LimitData,
    "slicer": Slicer,
}


def attributes(toxic: Toxic) -> dict[str, int]:
    """Return the attributes of *toxic* by name."""
    return dataclasses.asdict(toxic)  # type: ignore[call-overload, no-any-return]
