"""The first files of a project that tests recovery: a scenario, a job for CI, and a conftest.py where it is needed."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from chaos.plugins.commands.scenarios import folder as shipped
from chaos.plugins.starting.project import Project
from chaos.scenario import ExpectedFailure, Scenario
from chaos.scenario.loader import load, understand

SCENARIO = "recovery.chaos.yaml"
WORKFLOW = Path(".github", "workflows", "chaos.yml")
WIDTH = 110  # of a line of comment

_SCENARIO = """\
# Written by `pytest-chaos init`; change it as you like. `pytest-chaos check {path}` tells what is wrong in it.
version: 1
scenario: recovery
{comment}
target: {{reference: {{workload: quarterly_sales, steps: 40}}}}
strategies: [{strategies}]
runs: 2
faults:
  - kind: kill # SIGKILL to the whole process tree, at random points that are drawn from the seed
    at: {{step: random, phase: [before_think, before_act, during_commit, after_commit], after: 12, before: 30}}
  - kind: kill # the e-mail has been sent and nothing has recorded it yet
    name: kill-after-effect
    at: {{step: 2, phase: after_act}}
  - kind: rate_limit # 429 with Retry-After
    requests: 3
    retry_after: 50ms
    at: {{step: random, phase: before_think}} # before a request: after the last one nobody would be refused
# What is known to break, and why. Remove an entry, and the test fails with the finding; mend it, and the test says that
# the entry is not true any more.
expected_failures:
{expected}"""

_TARGET = """\
The target is the agent that comes with pytest-chaos, with the recovery strategies nearest to {framework}: {why}. \
What they lose is what an agent that recovers in this way loses. Your own agent takes its place unchanged, as a \
program of which you say what its model answers and what the services that it calls answer:
"""

_OWN = """\
#     target:
#       command:
#         run: ["{python}", "${{ here }}/my_agent.py"]
#         turns: [{call: {send_mail: {to: Ada}}}, {say: Done.}]
#         services: {mail.send: {reply: {sent: true}}}   # it calls $CHAOS_SERVICES_URL/mail/send
#     strategies: [own]
#     faults: [{kind: kill, at: {operation: effect, n: every}}]
"""

_CONFTEST = '''\
"""Plug-ins of pytest are not loaded by themselves in this project (--disable-plugin-autoload): this one is named."""

pytest_plugins = ["chaos.plugins.pytest_plugin"]
'''

_WORKFLOW = """\
# Written by `pytest-chaos init`: each scenario in {tests}, with the report as an artifact; its table is in the summary.
name: chaos
on:
  push: {{branches: [main, master]}}
  pull_request:
  workflow_dispatch:
permissions: {{contents: read}}
jobs:
  chaos:
    runs-on: ubuntu-latest
    timeout-minutes: 30
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with: {{python-version: "{python}"}}
{install}
      - run: pytest-chaos check {tests} --format github
      # The seed is the run's number: a job that is run again breaks the agent at the same places.
      - run: pytest --chaos {glob} --chaos-seed ${{{{ github.run_id }}}}
      - uses: actions/upload-artifact@v4
        if: always() # a report of what failed is what one wants to see
        with: {{name: chaos-report, path: .chaos, include-hidden-files: true, if-no-files-found: warn}}
"""


@dataclass(frozen=True)
class Planned:
    """A file to be written at *path*, relative to the project, and *why* it is written as it is."""

    path: Path
    text: str
    why: str


def plan(project: Project) -> Iterator[Planned]:
    """Yield what *project* needs."""
    framework = project.framework
    yield Planned(
        project.tests / SCENARIO,
        scenario(project),
        f"strategies {', '.join(framework.strategies)}: {framework.why}; tests are in {project.tests}: "
        f"{project.tests_because}",
    )
    if not project.autoload:
        why = "this project switches the loading of plug-ins off, so ours has to be named; without that none is needed"
        yield Planned(Path("conftest.py"), _CONFTEST, why)
    if not project.other_ci:
        yield Planned(WORKFLOW, workflow(project), "runs the scenarios on each push, and keeps the report")


def scenario(project: Project) -> str:
    """Return the text of the first scenario; it can be loaded, or that is an error of ours."""
    path = project.tests / SCENARIO
    named = "what people write first" if project.framework.name == "none" else project.framework.name
    comment = textwrap.fill(
        _TARGET.format(framework=named, why=project.framework.why),
        WIDTH,
        initial_indent="# ",
        subsequent_indent="# ",
        break_long_words=False,
    )
    text = _SCENARIO.format(
        path=path,
        comment=f"{comment}\n{_OWN.rstrip()}",
        strategies=", ".join(project.framework.strategies),
        expected="{expected}",
    )
    bare = understand(path, text.replace("expected_failures:\n{expected}", ""))
    expected = "".join(_expected(bare))
    return text.replace("expected_failures:\n{expected}", f"expected_failures:\n{expected}" if expected else "")


def _expected(bare: Scenario) -> Iterator[str]:
    """Yield the expected failures of the strategies in *bare*: what the scenarios of the package, which are run in CI,
    say of them."""
    known = [*load(shipped() / "kill.chaos.yaml").expected, *load(shipped() / "rate_limit.chaos.yaml").expected]
    faults = {fault.label for fault in bare.faults}
    for name in dict.fromkeys(strategy.name for strategy in bare.strategies):
        like = "delta" if name == "deep_agents" else name  # it is LangGraph with delta channels
        for each in known:
            if each.strategy == like and each.fault in faults:
                yield _entry(name, each)


def _entry(strategy: str, expected: ExpectedFailure) -> str:
    lines = [f"  - strategy: {strategy}", f"    fault: {expected.fault}"]
    for key in ("breaks", "may_break"):
        if names := getattr(expected, key):
            lines.append(f"    {key}: [{', '.join(names)}]")
    because = json.dumps(expected.because, ensure_ascii=False) if ": " in expected.because else expected.because
    return "\n".join([*lines, f"    because: {because}\n"])


def workflow(project: Project) -> str:
    """Return the text of the CI job."""
    lines = [f"      - run: pip install {arguments}" for arguments in project.install]
    if not project.has_chaos:
        wanted, note = requirement()
        lines += [f"      # {note}"] if note else []
        lines.append(f"      - run: pip install '{wanted}'")
    tests = project.tests.as_posix()
    return _WORKFLOW.format(
        tests=tests,
        glob=f"{tests}/*.chaos.yaml" if tests != "." else "*.chaos.yaml",
        python=f"{sys.version_info.major}.{sys.version_info.minor}",
        install="\n".join(lines),
    ).replace("\n\n", "\n")


def requirement() -> tuple[str, str]:
    """Return how this pytest-chaos is installed elsewhere, and what is to be done first; "" if nothing is.

    A package that did not come from an index says where it came from (PEP 610).
    """
    try:
        found = distribution("pytest-chaos")
    except PackageNotFoundError:  # run from a checkout that nobody installed
        return "pytest-chaos", "put pytest-chaos where CI can install it from"
    origin = json.loads(found.read_text("direct_url.json") or "{}")
    url = str(origin.get("url", ""))
    if not url:
        return f"pytest-chaos=={found.version}", ""
    if commit := origin.get("vcs_info", {}).get("commit_id"):
        return f"pytest-chaos @ git+{url}@{commit}", ""
    if not url.startswith("file:"):
        return f"pytest-chaos @ {url}", ""
    note = "it was installed from a folder, which CI does not have: name a place where CI finds it, such as a git URL"
    return "pytest-chaos", note
