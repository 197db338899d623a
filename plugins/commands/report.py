"""`pytest-chaos report`: the HTML page of a results folder."""

from __future__ import annotations

import argparse
from pathlib import Path

from chaos.plugins.commands import OK, REPORT, add_results

HELP = "render the HTML report of a campaign, finished or interrupted"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_results(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help=f"default: {REPORT} in the results folder")
    parser.add_argument("--price", metavar="USD", help="of a million tokens; default: what the campaign was given")


def run(options: argparse.Namespace) -> int:
    """Write the page and print where it is."""
    from chaos import results
    from chaos.errors import HarnessError
    from chaos.plugins.settings import price_of
    from chaos.reports import html

    output: Path = options.output or options.results / REPORT
    campaign = results.read(options.results)
    if options.price is not None:
        campaign = results.priced(campaign, price_of("--price", options.price))
    try:
        html.write(campaign, options.results, output)
    except OSError as error:
        raise HarnessError(f"{output}: cannot be written ({error.strerror}); name another file with -o") from None
    print(output)
    return OK
