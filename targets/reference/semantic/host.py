"""The half outside the sandbox: while the model thinks it looks, decides, stores and publishes.

The agent's request for turn k says that k turns are done, and that the agent waits: nothing of its own moves. What it
gets as an answer comes after the manifest is durable. The last turn has no request after it; it ends with `finished`.

All that the next incarnation needs is in the durable zone, so that a new object over the same zones goes on like the
old one, its accounts included: they are in the manifest.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import cast

from chaos.errors import HarnessError
from chaos.host import Report
from chaos.sandbox import Sandbox
from chaos.targets.reference.semantic import manifest as manifests
from chaos.targets.reference.semantic.audit import Audit
from chaos.targets.reference.semantic.criu import Criu
from chaos.targets.reference.semantic.inspector import NOTHING, Decision, Process, Sight, decide
from chaos.targets.reference.semantic.manifest import Manifest
from chaos.targets.reference.semantic.processes import Sighting, alive
from chaos.targets.reference.snapshot import CorruptStore, Entry, Snapshots, Tree

TRIES = 5  # a file that goes while we look makes us look again
# Names of accounts, besides "turns", which counts those that were published:
DECIDED = ("skip", "files", "processes")  # turns by what was decided (see `Decision`)
JUDGED = ("false_negatives", "false_positives")  # turns by what the audit says of that
WRITTEN, IMAGES = "written", "images"  # bytes written; folders of memory made


class TurnSnapshots:
    """Snapshots of *sandbox*, one for each turn that changed something.

    Args:
        criu: dumps the memory of processes; None: they are recorded, so that they can be compared, and the agent
            starts them again.
        demanded: processes that come back without their memory are no result.
        audit: judge every decision by a full diff, which costs time.
    """

    def __init__(self, sandbox: Sandbox, report: Report, criu: Criu | None, *, demanded: bool, audit: bool) -> None:
        zones = sandbox.zones
        self._sandbox, self._report, self._criu = sandbox, report, criu
        self._durable, self._demanded = zones.durable, demanded
        self._folders = {"workspace": zones.workspace, "tmp": zones.tmp}
        self._objects = manifests.folder(zones.durable) / "objects"
        self._snapshots = Snapshots(self._objects, self._folders)
        for name in ("artefacts", "images"):
            (manifests.folder(zones.durable) / name).mkdir(exist_ok=True)
        self._processes = Sighting(memory=criu is not None)
        self._audit = Audit(self._folders, criu is not None) if audit else None
        self._before = NOTHING
        self._manifest: Manifest | None = None
        self._restored = False  # whether this incarnation is one that something was put back for
        self._failed = ""  # why memory could not be brought back
        self._accounts = self._found()
        self._stored = {place.name for place in self._objects.iterdir()}
        self._lock = threading.Lock()  # a request comes from a thread of the world
        self._closed = False

    def _found(self) -> Counter[str]:
        """Return the accounts as they are in what is stored already; empty ones at the start of a run."""
        try:
            newest = manifests.newest(self._durable)
        except CorruptStore:  # the agent will be told
            newest = None
        if newest is None:
            return Counter()
        return Counter({**newest.accounts, WRITTEN: newest.accounts[WRITTEN] + len(newest.body)})

    @property
    def tied(self) -> str:
        """Nothing: see above."""
        return ""

    def starting(self, attempt: int) -> None:
        """Make the folders what they were at the end of the turn of the newest manifest."""
        with self._lock:
            self._restored, self._failed = False, ""
            self._manifest, self._before = None, NOTHING
            if attempt == 1:
                return
            try:
                self._manifest = manifests.newest(self._durable)
                if self._manifest:
                    self._before = self._put_back(self._manifest)
                elif self._audit:
                    self._audit.begun()
            except CorruptStore as error:
                manifests.refuse(self._durable, str(error))
                self._report("refused", {"why": str(error)})

    def _put_back(self, manifest: Manifest) -> Sight:
        tree = cast(Tree, manifests.artefact(self._durable, manifest.files))
        kept = cast("list[dict[str, object]]", manifests.artefact(self._durable, manifest.processes))
        processes = tuple(_process(one) for one in kept)
        self._snapshots.restore(tree)
        self._restored = True
        if self._audit:
            self._audit.restored(processes)
        self._report("restore", {"turns": manifest.turns, "paths": len(tree), "processes": len(processes)})
        return Sight(tree, processes)

    def standing(self, phase: str, step: int) -> None:
        """Bring processes back before the agent looks for them; take the last turn's snapshot."""
        with self._lock:
            if phase == "before_load" and self._restored and self._criu and self._manifest and self._manifest.images:
                images = manifests.folder(self._durable) / "images" / self._manifest.images
                highest = max(process.pid for process in self._before.processes)
                self._failed = self._criu.restore(self._sandbox, images, highest)
            elif phase == "after_load" and self._restored and self._before.processes:
                self._tell_processes()
            elif phase == "finished":
                self._end_turn(step)
                self._tell_turns()

    def asked(self, turn: int) -> None:
        """Take the snapshot of the end of the turn before *turn*."""
        with self._lock:
            if not self._closed:
                self._end_turn(turn)

    def stored_bytes(self) -> int | None:
        """Return None: the sizes of the files tell."""
        return None

    def written_bytes(self) -> int:
        """Return the bytes of contents, artefacts, manifests and images written so far."""
        return self._accounts[WRITTEN]

    def close(self) -> None:
        """Take no more snapshots."""
        with self._lock:
            self._closed = True

    def _end_turn(self, turns: int) -> None:
        agent = self._sandbox.pid
        for left in reversed(range(TRIES)):
            try:
                now = Sight(self._snapshots.take(), self._processes.look(agent))
                break
            except FileNotFoundError as error:
                if not alive(agent):
                    return
                if not left:
                    raise HarnessError(f"{error.filename} comes and goes while a snapshot is taken") from error
        memory = self._criu is not None
        decision = decide(self._before, now, memory=memory)
        if self._audit:
            self._accounts.update(self._audit.turn(agent, decision))
        files, processes, images = self._store(turns, now, decision)
        if not alive(agent):  # what was seen may be its ruins
            return
        if turns > (self._manifest.turns if self._manifest else 0):  # one that is asked for again has been counted
            self._accounts["turns"] += 1
            for what in DECIDED:
                self._accounts[what] += bool(getattr(decision, what))
        done = Manifest(turns, files, processes, images, dict(self._accounts))
        self._accounts[WRITTEN] += manifests.publish(self._durable, done)
        self._before, self._manifest = now, done

    def _store(self, turns: int, now: Sight, decision: Decision) -> tuple[str, str, str]:
        """Store what changed; return the names of files, processes and images for the manifest."""
        last = self._manifest
        files, processes, images = (last.files, last.processes, last.images) if last else ("", "", "")
        if decision.files or not last:
            files = self._kept(now.files)
            self._count_contents(now.files)
        failed = self._criu is not None and bool(now.processes) and not images  # the last dump: try again
        if decision.processes or failed or not last:
            processes = self._kept([asdict(process) for process in now.processes])
            images = self._dumped(turns, now.processes)
        if not decision.skip:
            figures = {"turns": turns, "files": decision.files, "processes": decision.processes, "memory": bool(images)}
            self._report("snapshot", figures)
        return files, processes, images

    def _dumped(self, turns: int, processes: tuple[Process, ...]) -> str:
        """Dump the memory of *processes*; return the name of the folder, "" if there is none."""
        if not processes or not self._criu:
            return ""
        self._accounts[IMAGES] += 1
        name = f"{turns}-{self._accounts[IMAGES]}"
        place = manifests.folder(self._durable) / "images" / name
        written, failed = self._criu.dump(self._sandbox.pid, place)
        self._accounts[WRITTEN] += written
        if failed:
            self._report("processes", {"how": "not dumped", "why": failed})
        return "" if failed else name

    def _kept(self, artefact: object) -> str:
        name, written = manifests.keep(self._durable, artefact)
        self._accounts[WRITTEN] += written
        return name

    def _count_contents(self, files: Mapping[str, Entry]) -> None:
        for digest in {entry["digest"] for entry in files.values() if "digest" in entry} - self._stored:
            self._stored.add(digest)
            self._accounts[WRITTEN] += (self._objects / digest).stat().st_size

    def _tell_processes(self) -> None:
        """Say which processes of the snapshot are there again, and how they came back."""
        # Not by their environment: a shell that was set up anew remembers no folder that it was in before.
        wanted = Counter((one.argv, one.cwd, one.ports) for one in self._before.processes)
        here = Counter((one.argv, one.cwd, one.ports) for one in self._processes.look(self._sandbox.pid))
        came = (wanted & here).total()
        stored = self._manifest is not None and self._manifest.images
        why = self._failed or ("" if stored else "their memory is not stored")
        how = "restored" if not why else "respawned"
        self._report("processes", {"how": how, "count": came, "missing": wanted.total() - came, "why": why})
        if why and self._demanded:  # what was asked for is CRIU, and never an imitation of it
            raise HarnessError(f"CRIU did not bring the processes back ({why}); processes: auto starts them again")

    def _tell_turns(self) -> None:
        told = ("turns", *DECIDED, *(JUDGED if self._audit else ()))
        self._report("turns", {what: self._accounts[what] for what in told})
        if missed := self._accounts["false_negatives"]:  # nothing that was resumed from such a snapshot proves anything
            raise HarnessError(f"{missed} turns changed more than was stored of them, by a full diff")


def _process(kept: dict[str, object]) -> Process:
    lists = {name: tuple(value) if isinstance(value, list) else value for name, value in kept.items()}
    return Process(**lists)  # type: ignore[arg-type]
