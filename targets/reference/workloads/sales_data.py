"""The sales of a quarter, made by Faker from the seed, and the report that is right for them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache

from chaos.seeds import derive
from chaos.targets.reference.salesmath import Sale, answer

CUSTOMERS, PRODUCTS, ROWS = 6, 5, 24
CENTS = (1_000, 99_999)
YEAR = 2031
UNAVAILABLE = "unavailable"
REGION = "emea"

Results = Mapping[str, str]
"""Beat to the text of its tool result, as it stands in a conversation."""


@lru_cache(maxsize=8)
def sales(seed: int, quarter: str) -> tuple[Sale, ...]:
    """Return the sales of *quarter* ("Q1"), sorted by date."""
    from faker import Faker

    fake = Faker("en_US")
    fake.seed_instance(derive(seed, "sales", quarter))
    customers = [fake.unique.company() for _ in range(CUSTOMERS)]
    products = [fake.unique.catch_phrase() for _ in range(PRODUCTS)]
    first = 3 * (int(quarter[1]) - 1) + 1
    rows = (
        Sale(
            f"{YEAR}-{first + fake.random_int(0, 2):02}-{fake.random_int(1, 28):02}",
            fake.random_element(customers),
            fake.random_element(products),
            fake.random_int(*CENTS),
        )
        for _ in range(ROWS)
    )
    return tuple(sorted(rows))


def rows_body(rows: tuple[Sale, ...]) -> dict[str, object]:
    """Return what the warehouse answers."""
    return {"rows": [list(row) for row in rows]}


def rows_of(text: str) -> tuple[Sale, ...]:
    """Return the rows in the warehouse's answer as the agent saw it; none if it is no such answer."""
    try:
        return tuple(Sale(str(r[0]), str(r[1]), str(r[2]), int(r[3])) for r in json.loads(text)["rows"])
    except (ValueError, TypeError, LookupError):
        return ()


def engine_text(rows: tuple[Sale, ...], query: Mapping[str, str]) -> str:
    """Return the line that the engine answers *query* with."""
    return json.dumps(answer(rows, dict(query)), sort_keys=True)


def field(results: Results, beat: str, name: str) -> str:
    """Return the field *name* of the JSON result of *beat*, UNAVAILABLE if it failed or never was."""
    try:
        found = json.loads(results[beat])[name]
    except (LookupError, ValueError, TypeError):
        return UNAVAILABLE
    return str(found)


def money(results: Results, beat: str) -> str:
    """Return the amount in the result of *beat*."""
    cents = field(results, beat, "cents")
    return f"{int(cents) / 100:,.2f}" if cents.isdigit() else UNAVAILABLE


def plain(results: Results, beat: str) -> str:
    """Return the result of *beat*, if it is no error."""
    text = results.get(beat, "")
    return UNAVAILABLE if not text or text.startswith("error:") else text.strip()


def report(quarter: str, goal: str, beats: frozenset[str], results: Results) -> str:
    """Return the text of the final report: every figure is what the conversation says, or "unavailable"."""
    lines = [
        f"# {quarter} sales report",
        "",
        f"Goal: {goal}",
        "",
        f"- Rows: {len(rows_of(results.get('rows', '')))}",
        f"- Revenue: {money(results, 'total')}",
    ]
    optional: dict[str, Callable[[], str]] = {
        "best_customer": lambda: f"{field(results, 'best_customer', 'name')} ({money(results, 'best_customer')})",
        "best_product": lambda: f"{field(results, 'best_product', 'name')} ({money(results, 'best_product')})",
        "first_month": lambda: money(results, "first_month"),
        "region": lambda: plain(results, "region"),
        "recall": lambda: plain(results, "recall"),
        "ticket": lambda: field(results, "ticket", "ticket"),
        "payment": lambda: field(results, "payment", "payment"),
    }
    names = {"first_month": "First month", "recall": "Control sum"}
    for beat, text in optional.items():
        if beat in beats:
            lines.append(f"- {names.get(beat, beat.replace('_', ' ').capitalize())}: {text()}")
    return "\n".join(lines) + "\n"
