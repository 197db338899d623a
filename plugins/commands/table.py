"""`pytest-chaos table`: the table that ends a campaign's output, again."""

from __future__ import annotations

import argparse

from chaos.plugins.commands import BROKEN, OK, REPORT, add_results

HELP = "print the strategy x fault table of a campaign"
EPILOG = "exit codes: 0 all as promised; 1 something was broken or not proved; 2 no results"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_results(parser)


def run(options: argparse.Namespace) -> int:
    """Print the table; tell by the exit code whether all is as promised."""
    import shutil

    from chaos import results
    from chaos.reports import matrix, terminal

    campaign = results.read(options.results)
    report = options.results / REPORT
    for line in terminal.render(campaign, str(report) if report.exists() else None, shutil.get_terminal_size().columns):
        print(line)
    found = matrix.of(campaign)
    return OK if found.judged and not found.bad and not campaign.unjudged else BROKEN
