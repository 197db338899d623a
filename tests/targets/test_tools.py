"""The tools with a real bash, git, wheel and engine: each converges, and fails in words."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.targets.reference.agent import new_session
from chaos.targets.reference.shell import Shell, ShellError
from chaos.targets.reference.tools import Tools, Zones
from chaos.targets.reference.wheel import WHEEL, build
from chaos.world import ToolCall, ToolFunction

CSV = "date,customer,product,cents\n2031-01-02,Ann,tea,100\n2031-02-03,Bob,tea,250\n"

Act = Callable[..., str]


def call(name: str, /, **arguments: object) -> ToolCall:
    return ToolCall(id="call_q1_1", type="function", function=ToolFunction(name=name, arguments=json.dumps(arguments)))


@pytest.fixture
def tools(bench: Any) -> Iterator[Tools]:
    made = Tools(zones(bench.root), "t-1", bench.env({}))
    made.recover(new_session())
    yield made
    made.close()


@pytest.fixture
def act(tools: Tools) -> Act:
    return lambda name, /, **arguments: tools.act(call(name, **arguments))


def zones(root: Path) -> Zones:
    return Zones(root / "durable", root / "workspace", root / "tmp", root / "assets")


def test_every_tool_converges(act: Act, bench: Any) -> None:
    calls: list[tuple[str, dict[str, object], str]] = [
        ("write_file", {"path": "data/q1.csv", "content": CSV}, "wrote 74 bytes to data/q1.csv"),
        ("read_file", {"path": "data/q1.csv"}, CSV),
        ("cd", {"path": "analysis"}, "now in analysis"),
        ("set_environment", {"variables": {"A": "it's", "B": "2"}}, "set A, B"),
        ("run", {"command": 'printf %s "$A"; wc -l < ../data/q1.csv'}, "it's3"),
        ("scratch", {"do": "write", "name": "sum", "content": "350"}, "kept sum"),
        ("scratch", {"do": "read", "name": "sum"}, "350"),
        ("install_package", {"wheel": WHEEL}, "installed salesmath 1.0"),
        ("start_service", {"command": ["salesmath.engine", "../data/q1.csv"]}, "salesmath.engine is running"),
        ("query_service", {"query": {"kind": "total"}}, '{"cents": 350}'),
        ("query_service", {"query": {"kind": "month", "name": "02"}}, '{"cents": 250, "name": "02"}'),
        ("commit", commit("first", first="yes"), "committed b8de70b8a2b1"),
        ("commit", commit("second"), "committed c9e81d3e4a06"),
        ("call_service", service("tickets", "create"), '{"ticket":"T-17a2d05e"}'),
        ("call_service", service("email", "send"), '{"queued":true}'),
    ]
    first = [act(name, **arguments) for name, arguments, _ in calls]
    assert first == [act(name, **arguments) for name, arguments, _ in calls]
    hashes = {"committed"}
    for (_, _, wanted), text in zip(calls, first, strict=True):
        assert text == wanted or (text.split()[0] in hashes and len(text.split()[1]) == 12)
    assert bench.effects() == ["tickets.create", "email.send", "email.send"]
    assert git(bench, "log", "--format=%s") == ["second", "first"]
    assert git(bench, "status", "--porcelain") == []
    for text in first:
        assert str(bench.root) not in text and str(bench.port) not in text


def commit(message: str, first: str = "no") -> dict[str, object]:
    given = {"path": ".gitignore", "content": "/env/\n"} if first == "yes" else {"path": "n.md", "content": message}
    return {**given, "message": message, "date": "1700000000 +0000", "first": first}


def service(name: str, operation: str) -> dict[str, object]:
    return {"service": name, "operation": operation, "payload": {"quarter": "Q1"}}


def git(bench: Any, *arguments: str) -> list[str]:
    command = ("git", "-c", "safe.directory=*", "-C", bench.root / "workspace", *arguments)
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("fly", {}, "error: there is no tool 'fly'"),
        ("cd", {"path": "../tmp"}, "error: '../tmp' is outside"),
        ("read_file", {"path": "none"}, "error: No such file or directory"),
        ("read_file", {"path": 3}, "error: argument 'path' must be a text"),
        ("scratch", {"do": "read", "name": "none"}, "error: No such file or directory"),
        ("run", {"command": "cat none"}, "error: the command ended with status 1"),
        ("run", {"command": "if"}, "error: the command ended with status 2"),
        ("query_service", {"query": {"kind": "total"}}, "error: the service does not answer"),
        ("start_service", {"command": ["salesmath.engine", "x"]}, "error: salesmath.engine did not start"),
        ("install_package", {"wheel": "none-1.0-py3-none-any.whl"}, "error: there is no none-1.0-py3-none-any.whl"),
        ("commit", commit("second"), "error: the commit failed"),
        ("call_service", service("cinema", "book"), "error: cinema.book answered 404"),
    ],
)
def test_failures_are_words(act: Act, name: str, arguments: dict[str, object], text: str) -> None:
    assert act(name, **arguments) == text == act(name, **arguments)


def test_arguments_that_are_no_json_are_told(tools: Tools) -> None:
    wrong = ToolCall(id="c", type="function", function=ToolFunction(name="run", arguments="{"))
    assert tools.act(wrong) == "error: the arguments are not JSON"


def test_a_killed_git_does_not_block_the_next_one(act: Act, bench: Any) -> None:
    assert act("commit", **commit("first", first="yes")).startswith("committed ")
    (bench.root / "workspace/.git/index.lock").touch()
    assert act("commit", **commit("second")).startswith("committed ")


def test_the_kernel_sees_the_shell_as_it_is(act: Act, bench: Any) -> None:
    act("cd", path="analysis")
    act("set_environment", variables={"SALES_REGION": "emea"})
    shells = [pid for pid in bench.tree() if Path(f"/proc/{pid}/comm").read_text() == "bash\n"]
    assert len(shells) == 1
    assert Path(f"/proc/{shells[0]}/cwd").resolve() == bench.root / "workspace/analysis"
    assert b"\0SALES_REGION=emea\0" in Path(f"/proc/{shells[0]}/environ").read_bytes()
    assert Path(f"/proc/{shells[0]}/cmdline").read_bytes() == b"bash\0--norc\0--noprofile\0"


def test_a_session_comes_back(act: Act, tools: Tools, bench: Any) -> None:
    act("write_file", path="data/q1.csv", content=CSV)
    session = new_session()
    session["cwd"], session["environment"], session["packages"] = "analysis", {"A": "1"}, [WHEEL]
    session["services"] = [["salesmath.engine", "../data/q1.csv"]]
    tools.close()
    again = Tools(zones(bench.root), "t-1", bench.env({}))
    again.recover(session)
    try:
        assert again.act(call("query_service", query={"kind": "total"})) == '{"cents": 350}'
        assert again.act(call("run", command='printf %s "$A"; wc -l < ../data/q1.csv')) == "13"
        assert again.act(call("run", command='basename "$PWD"')) == "analysis"
    finally:
        again.close()


def test_what_cannot_come_back_is_no_error(bench: Any) -> None:
    session = new_session()
    session["packages"], session["services"] = ["none-1.0-py3-none-any.whl"], [["salesmath.engine", "none.csv"]]
    made = Tools(zones(bench.root), "t-1", bench.env({}))
    made.recover(session)
    assert made.act(call("query_service", query={"kind": "total"})) == "error: the service does not answer"
    made.close()


def test_a_shell_that_ends_is_told(tmp_path: Path) -> None:
    shell = Shell(tmp_path, {"PATH": "/usr/bin:/bin"})
    assert shell.run("printf 'a\\0b'") == (0, "a\0b")
    with pytest.raises(ShellError, match="the shell is gone"):
        shell.run("exit 3")
    shell.close()


def test_the_wheel_is_the_same_in_every_build(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    assert build(tmp_path).read_bytes() == build(tmp_path / "other").read_bytes()
