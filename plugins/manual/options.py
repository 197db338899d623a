"""The page on the options of pytest, from what the plug-in tells pytest itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from chaos.plugins import pytest_plugin
from chaos.plugins.manual.markdown import document, table

ENVIRONMENT = " Environment: "

INTRODUCTION = """\
`pytest --help` shows these in the group "chaos". Each has an environment variable, which counts where the option is
not given; an empty variable counts as none. pytest's own options (`-k`, `-m`, `-x`, `--lf`, `--junitxml`, …) work as
ever."""


@dataclass
class Told:
    """Takes the place of pytest's parser, and of its group of options, and keeps what it is told."""

    options: dict[str, dict[str, Any]] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)

    def getgroup(self, name: str, description: str = "", after: str | None = None) -> Told:
        return self

    def addoption(self, *names: str, **more: Any) -> None:
        self.options[", ".join(names)] = more

    def addini(self, name: str, help: str, *more: Any, **others: Any) -> None:
        self.settings[name] = help


def told() -> Told:
    """Return the options and settings that the plug-in adds to pytest."""
    parser = Told()
    pytest_plugin.pytest_addoption(cast(pytest.Parser, parser))
    return parser


def page() -> str:
    """Return the page."""
    found = told()
    settings = table(("setting", "meaning"), ((f"`{name}`", text) for name, text in found.settings.items()))
    return document(
        "Options of pytest",
        INTRODUCTION,
        table(("option", "meaning", "environment"), (_row(name, more) for name, more in found.options.items())),
        "## Settings in the configuration file" if settings else "",
        settings,
    )


def _row(name: str, more: dict[str, Any]) -> tuple[str, str, str]:
    meaning, _, variable = str(more.get("help", "")).partition(ENVIRONMENT)
    shown = f"{name} {more['metavar']}" if more.get("metavar") else name
    return f"`{shown}`", meaning, f"`{variable.rstrip('.')}`" if variable else ""
