"""`pytest-chaos init`: what it finds in a project, and that what it writes is right and runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from chaos import registry
from chaos.plugins.command_line import main
from chaos.plugins.starting import files, project
from chaos.scenario.loader import load
from tests.plugins.project import Project


def write(folder: Path, **texts: str) -> Path:
    """Write files; `__` in a name is a slash."""
    for name, text in texts.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


PYPROJECT = """\
[project]
name = "own"
version = "1"
dependencies = [{dependencies}]
{more}
"""


def needing(dependencies: str, more: str = "") -> str:
    return PYPROJECT.format(dependencies=dependencies, more=more)


@pytest.mark.parametrize(
    ("texts", "framework", "evidence"),
    [
        ({"pyproject_dot_toml": needing('"LangGraph[x]>=1", "openai"')}, "langgraph", "langgraph in pyproject.toml"),
        ({"pyproject_dot_toml": needing('"deepagents~=0.7", "langgraph"')}, "deepagents", "deepagents in"),
        ({"requirements_dot_txt": "# x\n-e .\nopenai>=3\n"}, "openai", "openai in requirements.txt"),
        ({"requirements__prod_dot_txt": "crewai\n"}, "crewai", "crewai in requirements/prod.txt"),
        ({"setup_dot_cfg": "[options]\ninstall_requires =\n  anthropic>=2\n"}, "anthropic", "anthropic in setup.cfg"),
        (
            {"pyproject_dot_toml": '[tool.poetry.dependencies]\npython = "^3.11"\npydantic-ai-slim = "*"\n'},
            "pydantic-ai",
            "pydantic-ai-slim in pyproject.toml",
        ),
        ({"pyproject_dot_toml": '[dependency-groups]\ndev = ["dbos", {include-group = "x"}]\n'}, "dbos", "dbos in"),
        ({"src__own__flow_dot_py": "from temporalio.client import Client\n"}, "temporal", "`import temporalio`"),
        ({"agent_dot_py": "import openai.types as t\n"}, "openai", "`import openai` in agent.py"),
        ({"venv__pyvenv_dot_cfg": "", "venv__lib__x_dot_py": "import dbos\n", "bad_dot_py": "import ("}, "none", ""),
        ({"own_dot_py": "from . import dbos\nfrom .openai import x\n"}, "none", ""),
        ({}, "none", ""),
    ],
)  # fmt: skip
def test_the_framework_is_found(tmp_path: Path, texts: dict[str, str], framework: str, evidence: str) -> None:
    found = project.find(write(tmp_path, **texts))
    assert found.framework.name == framework and found.evidence.startswith(evidence)


def test_what_decides_how_an_agent_recovers_comes_first(tmp_path: Path) -> None:
    found = project.find(write(tmp_path, requirements_dot_txt="openai\nlanggraph\ndbos\n"))
    assert found.framework.name == "dbos" and found.others == ("langgraph", "openai")


@pytest.mark.parametrize(
    ("texts", "folder", "because"),
    [
        ({"pytest_dot_ini": "[pytest]\ntestpaths = checks more\n", "checks__x_dot_py": ""}, "checks", "testpaths"),
        ({"pyproject_dot_toml": '[tool.pytest.ini_options]\ntestpaths = ["t"]\n', "t__x": ""}, "t", "testpaths"),
        ({"pyproject_dot_toml": '[tool.pytest]\ntestpaths = ["t"]\n', "t__x": ""}, "t", "testpaths"),
        ({"test__x": ""}, "test", "it is there"),
        ({"own__deep__test_x_dot_py": ""}, "own/deep", "own/deep/test_x.py is in it"),
        ({"test_x_dot_py": ""}, ".", "test_x.py is in it"),
        ({"pytest_dot_ini": "[pytest]\ntestpaths = gone\naddopts = 'never closed\n"}, "tests", "no tests yet"),
    ],
)
def test_the_folder_of_the_tests_is_found(tmp_path: Path, texts: dict[str, str], folder: str, because: str) -> None:
    found = project.find(write(tmp_path, **texts))
    assert found.tests == Path(folder) and because in found.tests_because


def test_a_pyproject_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, pyproject_dot_toml="[project\n")
    assert main(["init", str(tmp_path)]) == 2
    assert "pyproject.toml: no TOML" in capsys.readouterr().err
    assert main(["init", str(tmp_path / "none")]) == 2
    assert "no such folder" in capsys.readouterr().err


@pytest.mark.parametrize("framework", [*project.FRAMEWORKS, project.NO_FRAMEWORK], ids=lambda each: each.name)
def test_every_framework_has_a_scenario_that_is_right(tmp_path: Path, framework: project.Framework) -> None:
    package = min(framework.packages, default="nothing")
    assert main(["init", str(write(tmp_path, requirements_dot_txt=f"{package}\n"))]) == 0
    path = tmp_path / "tests" / files.SCENARIO
    assert main(["check", str(tmp_path)]) == 0
    found = load(path)
    assert {strategy.name for strategy in found.strategies} <= set(registry.names("strategies"))
    assert len(found.strategies) == len(framework.strategies)
    assert 'run: ["{python}", "${{ here }}/my_agent.py"]' in path.read_text(), "how an own agent is plugged in"
    # An effect without a key is repeated after a crash, whatever one keeps: each strategy says so.
    late = [fault for fault in found.faults if fault.label == "kill-after-effect"]
    assert all(found.expectation(strategy, late[0]) for strategy in found.strategies)


def test_what_it_writes_runs(project: Project) -> None:
    write(project.folder, requirements_dot_txt="langgraph\n")
    assert main(["init", str(project.folder)]) == 0
    done = project.run("--chaos", "tests/recovery.chaos.yaml", "--chaos-strategy", "delta", CHAOS_RUNS="1")
    assert done.code == 0 and "2 passed, 1 xfailed" in done.out, done.out


def test_nothing_is_overwritten_and_a_dry_run_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", str(tmp_path), "--dry-run"]) == 0
    assert list(tmp_path.iterdir()) == []
    printed = capsys.readouterr().out
    assert (
        "would write  tests/recovery.chaos.yaml" in printed and "strategies: [chat_history, full_snapshot]" in printed
    )

    own = write(tmp_path, tests__recovery_dot_chaos_dot_yaml="mine") / "tests/recovery.chaos.yaml"
    assert main(["init", str(tmp_path)]) == 0
    assert own.read_text() == "mine" and (tmp_path / files.WORKFLOW).exists()
    assert "exists   tests/recovery.chaos.yaml: left as it is; --force replaces it" in capsys.readouterr().out
    assert main(["init", str(tmp_path), "--force"]) == 0
    assert own.read_text().startswith("# Written by")


def workflow(folder: Path, **texts: str) -> dict[str, Any]:
    """Return the CI job of a project with *texts*."""
    assert main(["init", str(write(folder, **texts))]) == 0
    found: dict[str, Any] = YAML(typ="safe", pure=True).load(folder / files.WORKFLOW)
    return found


def test_the_ci_job(tmp_path: Path) -> None:
    extra = "[project.optional-dependencies]\ntest = ['pytest']\n"
    found = workflow(tmp_path, pyproject_dot_toml=needing('"langgraph"', extra), requirements_dot_txt="x\n")
    steps = found["jobs"]["chaos"]["steps"]
    runs = [step["run"] for step in steps if "run" in step]
    assert runs[:2] == ["pip install -e '.[test]'", "pip install -r requirements.txt"]
    assert runs[2].startswith("pip install 'pytest-chaos")
    assert runs[3:] == [
        "pytest-chaos check tests --format github",
        "pytest --chaos tests/*.chaos.yaml --chaos-seed ${{ github.run_id }}",
    ]
    uses = [step["uses"] for step in steps if "uses" in step]
    assert uses and all(re.fullmatch(r"actions/[\w-]+@v\d+", each) for each in uses)
    [upload] = [step for step in steps if "upload-artifact" in step.get("uses", "")]
    assert upload["if"] == "always()" and upload["with"]["include-hidden-files"] and upload["with"]["path"] == ".chaos"


def test_a_project_that_names_us_installs_us_by_itself(tmp_path: Path) -> None:
    found = workflow(tmp_path, pyproject_dot_toml=needing('"pytest_chaos>=0.1"'))
    runs = [step["run"] for step in found["jobs"]["chaos"]["steps"] if "run" in step]
    assert runs[0] == "pip install -e ." and not any("pytest-chaos'" in run for run in runs)


def test_another_ci_gets_no_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / ".gitlab-ci.yml").touch()
    assert main(["init", str(tmp_path)]) == 0
    assert ".gitlab-ci.yml: no job is written for it" in capsys.readouterr().out
    assert not (tmp_path / ".github").exists()


def test_a_conftest_only_where_plugins_are_not_loaded_by_themselves(project: Project) -> None:
    write(project.folder, pytest_dot_ini="[pytest]\naddopts = --disable-plugin-autoload\n")
    assert main(["init", str(project.folder)]) == 0
    assert "chaos.plugins.pytest_plugin" in (project.folder / "conftest.py").read_text()
    done = project.run("--chaos", "tests/recovery.chaos.yaml", "--co", "-q", foreign=True)
    assert done.code == 0 and "recovery.chaos.yaml::test_recovery[full_snapshot-kill]" in done.out, done.out
    (project.folder / "conftest.py").unlink()
    assert project.run("--chaos", "--co", "-q", foreign=True).code == 4, "it was needed"


def test_elsewhere_no_conftest_is_needed(tmp_path: Path) -> None:
    assert main(["init", str(tmp_path)]) == 0
    assert not (tmp_path / "conftest.py").exists()


def test_where_ci_finds_us(monkeypatch: pytest.MonkeyPatch) -> None:
    class Distribution:
        version = "0.1.0"

        def __init__(self, origin: str | None) -> None:
            self.origin = origin

        def read_text(self, name: str) -> str | None:
            return self.origin if name == "direct_url.json" else None

    def wanted(origin: str | None) -> tuple[str, bool]:
        monkeypatch.setattr(files, "distribution", lambda name: Distribution(origin))
        text, note = files.requirement()
        return text, bool(note)

    assert wanted(None) == ("pytest-chaos==0.1.0", False)
    assert wanted('{"url": "file:///home/me/clone", "dir_info": {}}') == ("pytest-chaos", True)
    git = '{"url": "https://example.org/x.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}'
    assert wanted(git) == ("pytest-chaos @ git+https://example.org/x.git@abc", False)
    assert wanted('{"url": "https://example.org/x.whl"}') == ("pytest-chaos @ https://example.org/x.whl", False)
