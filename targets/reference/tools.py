"""The agent's tools: they really do things, and every one converges.

The same call over a workspace that already holds its effect gives the same text, for a step may be done again
after a crash. Errors are results too ("error: ..."): the model sees them. No result holds a process id, a port,
an absolute path or a time, so that equal runs have equal conversations.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from chaos.targets.reference import git, packages
from chaos.targets.reference.agent import ERROR, Session
from chaos.targets.reference.engine import Engine, EngineError
from chaos.targets.reference.release import RENAMED
from chaos.targets.reference.shell import Shell, ShellError
from chaos.targets.reference.wire import TIMEOUT_SECONDS, Endpoint, Unavailable
from chaos.world import ToolCall

KEYLESS = frozenset({("email", "send")})
"""Operations whose service knows no idempotency key: a repeated call is a repeated effect."""

INHERITED = (
    "PATH", "LANG", "LC_ALL", "VIRTUAL_ENV", "HOME", "TMPDIR", "ENGINE_PORT", "GIT_CEILING_DIRECTORIES",
    "LD_PRELOAD", "FAKETIME_NO_CACHE", "FAKETIME_DONT_FAKE_MONOTONIC", "FAKETIME_TIMESTAMP_FILE", "FAKETIME_SHARED",
)  # fmt: skip
"""What the shell gets of the agent's own environment: the machine's clock, no configuration and no credentials."""


OLD_NAMES = {new: old for old, new in RENAMED.items()}
"""A tool goes by both its names: the release that renames it meets calls that were made before."""


class ToolError(Exception):
    """The call failed; the text is for the model."""


@dataclass(frozen=True)
class Zones:
    """The folders that the agent was given."""

    durable: Path
    workspace: Path
    tmp: Path
    assets: Path


class Arguments:
    """The arguments of one call, checked when they are read."""

    def __init__(self, text: str) -> None:
        try:
            self._given = json.loads(text)
        except ValueError:
            raise ToolError("the arguments are not JSON") from None
        if not isinstance(self._given, dict):
            raise ToolError("the arguments are not an object")

    def text(self, name: str) -> str:
        """Return the text argument *name*."""
        return _string(self._given.get(name), name)

    def texts(self, name: str) -> list[str]:
        """Return the list of texts *name*."""
        given = self._given.get(name)
        if not isinstance(given, list):
            raise ToolError(f"argument {name!r} must be a list of texts")
        return [_string(one, name) for one in given]

    def mapping(self, name: str) -> dict[str, object]:
        """Return the object *name*."""
        given = self._given.get(name)
        if not isinstance(given, dict):
            raise ToolError(f"argument {name!r} must be an object")
        return given


def _string(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise ToolError(f"argument {name!r} must be a text")
    return value


class Tools:
    """The tools of one incarnation.

    Args:
        zones: where it may work.
        thread: identity of the whole run, the same after a restart; idempotency keys are made from it.
        env: the agent's environment.
        timeout: seconds without a byte after which a call of a service has failed.
    """

    def __init__(self, zones: Zones, thread: str, env: Mapping[str, str], timeout: float = TIMEOUT_SECONDS) -> None:
        self._zones, self._thread = zones, thread
        self._env = {name: env[name] for name in INHERITED if name in env} | {
            "CHAOS_WORKSPACE": str(zones.workspace),
            "PYTHONDONTWRITEBYTECODE": "1",
            **git.ENVIRONMENT,
        }
        self._services = Endpoint(env["CHAOS_SERVICES_URL"], {}, timeout)
        self._engine = Engine(int(env.get("ENGINE_PORT", "0")), zones.workspace, sys.executable)
        self._shell: Shell | None = None
        self._tools: dict[str, Callable[[Arguments, str], str]] = {
            "call_service": self._call_service,
            "run": self._run,
            "cd": self._cd,
            "set_environment": self._set_environment,
            "write_file": self._write_file,
            "read_file": self._read_file,
            "scratch": self._scratch,
            "install_package": self._install_package,
            "start_service": self._start_service,
            "query_service": self._query_service,
            "commit": self._commit,
        }

    def recover(self, session: Session) -> None:
        """Set up a shell like the one of *session*, and what ran in its background, as far as that is possible.

        What cannot come back (a service whose files are gone) is left to the steps that miss it.
        """
        folder = self._zones.workspace / session["cwd"]
        folder.mkdir(parents=True, exist_ok=True)
        self._shell = Shell(folder, {**self._env, **session["environment"]})
        for wheel in session["packages"]:
            self._attempt(partial(packages.install, self._zones.assets / wheel, self._packages))
        for command in session["services"]:
            self._attempt(partial(self._engine.start, self.shell, command))

    def act(self, call: ToolCall) -> str:
        """Do what *call* says and return the result for the conversation."""
        name = call["function"]["name"]
        name = OLD_NAMES.get(name, name)
        try:
            if name not in self._tools:
                raise ToolError(f"there is no tool {name!r}")
            return self._tools[name](Arguments(call["function"]["arguments"]), call["id"])
        except (ToolError, ShellError, EngineError, Unavailable) as error:
            return f"{ERROR} {error}"
        except OSError as error:
            return f"{ERROR} {os.strerror(error.errno) if error.errno else type(error).__name__}"

    def close(self) -> None:
        """End the shell and the services that this incarnation started."""
        self._engine.stop()
        self._services.close()
        if self._shell is not None:
            self._shell.close()

    @property
    def shell(self) -> Shell:
        """The shell; `recover` sets it up."""
        assert self._shell is not None, "recover() comes first"
        return self._shell

    @property
    def _packages(self) -> Path:
        return self._zones.workspace / packages.FOLDER

    def _attempt(self, effort: Callable[[], object]) -> None:
        try:
            effort()
        except (OSError, ShellError, EngineError, packages.PackageError) as error:
            print(f"not recovered: {error}", file=sys.stderr)

    def _call_service(self, arguments: Arguments, call_id: str) -> str:
        service, operation = arguments.text("service"), arguments.text("operation")
        keyless = (service, operation) in KEYLESS
        headers = {} if keyless else {"Idempotency-Key": f"{self._thread}-{call_id}"}
        payload = json.dumps(arguments.mapping("payload"), sort_keys=True).encode()
        response = self._services.post(f"/{service}/{operation}", payload, headers, repeatable=not keyless)
        if response.status // 100 != 2:
            raise ToolError(f"{service}.{operation} answered {response.status}")
        return response.body.decode()

    def _run(self, arguments: Arguments, call_id: str) -> str:
        status, output = self.shell.run(arguments.text("command"))
        if status:
            raise ToolError(f"the command ended with status {status}")
        return output.replace(str(self._zones.workspace.parent), "").strip() or "done"

    def _cd(self, arguments: Arguments, call_id: str) -> str:
        path = arguments.text("path")
        self._inside(path).mkdir(parents=True, exist_ok=True)
        status, _ = self.shell.run(f'cd "$CHAOS_WORKSPACE"/{_quoted(path)}')
        if status:
            raise ToolError(f"cannot change to {path!r}")
        return f"now in {path}"

    def _set_environment(self, arguments: Arguments, call_id: str) -> str:
        variables = {name: _string(value, name) for name, value in arguments.mapping("variables").items()}
        if not variables or not all(name.isidentifier() for name in variables):
            raise ToolError("argument 'variables' must map names to texts")
        self.shell.export(variables)
        return f"set {', '.join(sorted(variables))}"

    def _write_file(self, arguments: Arguments, call_id: str) -> str:
        path, content = arguments.text("path"), arguments.text("content")
        _write(self._inside(path), content)
        return f"wrote {len(content.encode())} bytes to {path}"

    def _read_file(self, arguments: Arguments, call_id: str) -> str:
        return self._inside(arguments.text("path")).read_text(errors="replace")

    def _scratch(self, arguments: Arguments, call_id: str) -> str:
        name = arguments.text("name")
        path = _below(self._zones.tmp, name)
        if arguments.text("do") == "read":
            return path.read_text(errors="replace")
        _write(path, arguments.text("content"))
        return f"kept {name}"

    def _install_package(self, arguments: Arguments, call_id: str) -> str:
        try:
            return packages.install(_below(self._zones.assets, arguments.text("wheel")), self._packages)
        except packages.PackageError as error:
            raise ToolError(str(error)) from error

    def _start_service(self, arguments: Arguments, call_id: str) -> str:
        command = arguments.texts("command")
        self._engine.start(self.shell, command)
        return f"{command[0]} is running"

    def _query_service(self, arguments: Arguments, call_id: str) -> str:
        return self._engine.query(arguments.mapping("query"))

    def _commit(self, arguments: Arguments, call_id: str) -> str:
        path, message = arguments.text("path"), arguments.text("message")
        _write(self._inside(path), arguments.text("content"))
        commit = git.commit(self.shell, message, arguments.text("date"), first=arguments.text("first") == "yes")
        if not commit:
            raise ToolError("the commit failed")
        return f"committed {commit}"

    def _inside(self, path: str) -> Path:
        return _below(self._zones.workspace, path)


def _below(zone: Path, path: str) -> Path:
    """Return *path* below *zone*; a path that leaves it is refused."""
    full = Path(os.path.normpath(zone / path))
    if not full.is_relative_to(zone):
        raise ToolError(f"{path!r} is outside")
    return full


def _write(path: Path, content: str) -> None:
    """Write *content* in one go: a kill leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(content)
    fresh.rename(path)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
