"""`pytest-chaos schema`: the JSON Schema of scenarios."""

from __future__ import annotations

import argparse

from chaos.plugins.commands import OK

HELP = "print the JSON schema of scenarios, for editors"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: none."""


def run(options: argparse.Namespace) -> int:
    """Print it, installed plug-ins included."""
    import json

    from chaos.scenario.jsonschema import json_schema

    print(json.dumps(json_schema(), indent=2))
    return OK
