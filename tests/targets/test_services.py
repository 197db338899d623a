"""Faults at declared services, whichever way an agent calls them: an HTTP route with a form, an MCP tool over stdio."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from chaos import journal
from chaos.errors import ScenarioError
from chaos.events.done import LinkHit
from chaos.events.seen import Effected, Operated, Spoiled
from chaos.results import CellResult, RunResult
from chaos.scenario import Scenario
from chaos.scenario.loader import load
from tests.targets.test_command import cells

AGENT = Path(__file__).parent / "agents" / "shop.py"
SCENARIO = """
version: 1
scenario: shop
target:
  command:
    run: ["{{python}}", "{agent}"]
    env: {env}
    goal: Charge the card.
    turns: [{{say: A-1}}, {{say: A-2}}]
    services:
      pay.charge:
        route: POST /v1/charges
        key: Once
        status: 201
        reply: {{id: "ch_{{order}}", amount: "{{amount}}"}}
strategies: [own]
faults:
  - {{kind: kill, name: before-it, at: {{operation: service_call, n: every}}}}
  - {{kind: kill, name: after-it, at: {{operation: effect, n: every}}}}
  - {{kind: lost_reply, at: {{operation: service_call, n: 1}}}}
  - {{kind: timeout, link: services, seconds: 3s, at: {{operation: service_call, n: 2}}}}
  - {{kind: network, link: services, toxic: down, connections: 1, at: {{operation: model_call, n: 1}}}}
"""
FORM = {"PAY_API_BASE": "{services}/pay"}
TOOL = {"PAY_TOOLS": "{services}/mcp", "MCP": "yes"}
KEYED = {"KEYED": "yes"}


MAILER = """
import json, os, smtplib, urllib.request as web
from email.message import EmailMessage
body = b'{"model": "any", "messages": [{"role": "user", "content": "Write to Ada."}]}'
text = json.load(web.urlopen(web.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body)))
mail = EmailMessage()
mail["From"], mail["To"], mail["Subject"] = "us@example.org", "ada@example.org", "Hello"
mail.set_content(text["choices"][0]["message"]["content"])
sent = os.environ["CHAOS_DURABLE"] + "/sent"
if not os.path.exists(sent):
    with smtplib.SMTP(os.environ["CHAOS_SMTP_HOST"], int(os.environ["CHAOS_SMTP_PORT"])) as server:
        server.send_message(mail)
    open(sent, "w").close()
"""
MAILS = """
version: 1
scenario: mails
target:
  command:
    run: ["{python}", "${{ here }}/mailer.py"]
    goal: Write to Ada.
    turns: [{say: Dear Ada}]
    services: {mail.smtp: {}}
strategies: [own]
faults:
  - {kind: kill, name: before-it, at: {operation: service_call, n: every}}
  - {kind: kill, name: after-it, at: {operation: effect, n: every}}
"""


def scenario(folder: Path, env: Mapping[str, str]) -> Scenario:
    path = folder / "shop.chaos.yaml"
    path.write_text(SCENARIO.format(agent=AGENT, env=msgspec.json.encode(env).decode()))
    return load(path)


def told(found: Mapping[str, CellResult]) -> dict[str, tuple[str, tuple[str, ...]]]:
    return {label: (str(cell.verdict), tuple(cell.findings)) for label, cell in found.items()}


def events(folder: Path, fault: str) -> list[journal.AnyEvent]:
    """Return what was seen in the first run with *fault*."""
    lines = (folder / "results.jsonl").read_bytes().splitlines()
    runs = [msgspec.json.decode(line, type=RunResult) for line in lines]
    return list(journal.read(folder / next(run.journal for run in runs if run.fault == fault)))


def charges(seen: list[journal.AnyEvent]) -> list[tuple[str | None, bool]]:
    return [(one.key, one.deduplicated) for one in seen if isinstance(one, Effected)]


@pytest.mark.parametrize("way", [FORM, TOOL], ids=["form", "tool"])
def test_without_a_key_it_charges_twice_whenever_an_answer_is_lost(tmp_path: Path, way: Mapping[str, str]) -> None:
    found = cells(tmp_path / "out", scenario(tmp_path, way), "after-it", "lost_reply")
    assert told(found) == dict.fromkeys(found, ("diverged", ("effects",)))
    assert all(cell.landed == cell.planned > 0 for cell in found.values())
    killed = events(tmp_path / "out", "after-it")
    held = [(one.phase, one.path) for one in killed if isinstance(one, Operated) and one.phase == "effect"]
    assert held == [("effect", "pay.charge")] * 3
    assert charges(killed) == [(None, False)] * 3
    assert [one.how for one in events(tmp_path / "out", "lost_reply") if isinstance(one, Spoiled)] == ["lost"]


def test_with_a_key_for_each_charge_it_recovers_from_everything(tmp_path: Path) -> None:
    found = cells(tmp_path / "out", scenario(tmp_path, {**FORM, **KEYED}))
    assert told(found) == dict.fromkeys(found, ("recovered", ()))
    assert len(found) == 5 and all(cell.landed == cell.planned > 0 for cell in found.values())
    assert charges(events(tmp_path / "out", "after-it")) == [("A-1", False), ("A-1", True), ("A-2", False)]
    cut = events(tmp_path / "out", "network")
    assert [one.link for one in cut if isinstance(one, LinkHit)] == ["services"], "its own variable leads there too"


def test_with_a_key_for_each_tool_call_it_recovers(tmp_path: Path) -> None:
    found = cells(tmp_path / "out", scenario(tmp_path, {**TOOL, **KEYED}), "lost_reply")
    assert told(found) == dict.fromkeys(found, ("recovered", ()))
    assert charges(events(tmp_path / "out", "lost_reply")) == [("A-1", False), ("A-1", True), ("A-2", False)]


def test_a_mail_that_was_taken_is_sent_again_if_nobody_hears_of_it(tmp_path: Path) -> None:
    (tmp_path / "mailer.py").write_text(MAILER)
    (tmp_path / "mails.chaos.yaml").write_text(MAILS)
    found = cells(tmp_path / "out", load(tmp_path / "mails.chaos.yaml"))
    assert told(found) == {"before-it": ("recovered", ()), "after-it": ("diverged", ("effects",))}
    assert charges(events(tmp_path / "out", "after-it")) == [(None, False)] * 2


@pytest.mark.parametrize(
    ("changed", "to", "message"),
    [
        ("{services}", "{service}", "no placeholder {service} ('{service}/pay'); did you mean 'services'?"),
        ("POST /v1", "SEND /v1", "pay.charge: a route is METHOD /PATH"),
        ("key: Once", "keys: Once", "unknown key 'keys'"),
        ('"{python}"', '"{services}"', "no placeholder {services} ('{services}')"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, changed: str, to: str, message: str) -> None:
    scenario(tmp_path, FORM)
    path = tmp_path / "shop.chaos.yaml"
    path.write_text(path.read_text().replace(changed, to, 1))
    with pytest.raises(ScenarioError) as error:
        load(path)
    assert message in str(error.value)
