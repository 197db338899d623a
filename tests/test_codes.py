"""Every kind of failure has a code and a page, and what is printed carries it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import chaos
from chaos import codes, registry
from chaos.errors import HarnessError, Kind, ScenarioError, UnknownName
from chaos.plugins import tags
from chaos.scenario.loader import load
from chaos.verdict import CellVerdict

PACKAGE = Path(chaos.__file__).parent
GOOD = """\
version: 1
scenario: s
target: {reference: {steps: 40}}
strategies: [delta]
faults: [{kind: kill}]
"""
WRONG = {
    Kind.DUPLICATE: GOOD.replace("[delta]", "[delta, delta]"),
    Kind.EXPECTATION: GOOD + "expected_failures: [{strategy: delta, because: so}]\n",
    Kind.EXPRESSION: GOOD + "vars: {steps: 4}\ndescription: ${{ vars.stps }}\n",
    Kind.MISSING_FIELD: GOOD.replace("target: {reference: {steps: 40}}\n", ""),
    Kind.NO_VALUE: GOOD + "expected_failures:\n",
    Kind.PLACE: GOOD.replace("{kind: kill}", "{kind: kill, at: {step: 40}}"),
    Kind.REFUSED_OPTION: GOOD.replace("[delta]", "[{events: {runtime: temporal, database: postgres}}]"),
    Kind.RESERVED_TAG: GOOD + "tags: [skip]\n",
    Kind.SYNTAX: "version: 1\n\tscenario: s\n",
    Kind.TYPE: GOOD.replace("steps: 40", 'steps: "40"'),
    Kind.UNKNOWN_FIELD: GOOD.replace("target:", "taget:"),
    Kind.UNKNOWN_NAME: GOOD.replace("kind: kill", "kind: evikt"),
    Kind.UNUSED_YAML: GOOD + "limits: &base {deadline: 5s}\n",
    Kind.VALUE: GOOD + "limits: {deadline: 5}\n",
}


def sections(text: str) -> dict[str, str]:
    """Return the headings of a page, each with what stands below it."""
    parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], map(str.strip, parts[2::2]), strict=True))


def wrong(path: Path, kind: Kind) -> ScenarioError:
    """Return the error of a scenario that has a mistake of this *kind* and no other."""
    path.write_text(WRONG[kind], encoding="utf-8")
    with pytest.raises(ScenarioError) as caught:
        tags.marks(load(path))
    return caught.value


def test_the_codes_are_all_checks_verdicts_and_mistakes() -> None:
    known = codes.all()
    assert len(set(known)) == len(known)
    assert {code for code in known if code.startswith("check.")} == {
        f"check.{each}" for each in registry.names("checks")
    }
    assert {codes.of_verdict(each) for each in CellVerdict} == {code for code in known if code.startswith("verdict.")}
    assert {f"scenario.{each}" for each in Kind} == {code for code in known if code.startswith("scenario.")}
    assert codes.of_check("effects") == "check.effects"
    assert codes.of_verdict(CellVerdict.NOT_EXERCISED) == codes.of_verdict("not exercised") == "verdict.not-exercised"


@pytest.mark.parametrize("code", codes.all())
def test_every_code_has_a_page_with_the_same_headings(code: str) -> None:
    assert (codes.PAGES / f"{code}.md").is_file(), "write docs/codes/CODE.md"
    page = codes.page(code)
    assert page.text.startswith(f"# {code}: {page.title}\n") and len(page.title) > 10
    assert tuple(sections(page.text)) == codes.HEADINGS
    assert all(sections(page.text).values()), "a heading without a text says nothing"
    assert "\n- " in "\n" + sections(page.text)["Usual causes"]
    assert re.fullmatch(r"```text\n.+\n```", sections(page.text)["Example"], re.DOTALL)


def test_no_page_is_without_a_code() -> None:
    assert {path.stem for path in codes.PAGES.glob("*.*.md")} == set(codes.all())


def test_the_pages_are_those_of_the_documentation() -> None:
    assert codes.PAGES.resolve().parts[-2:] == ("docs", "codes") or codes.PAGES.name == "pages"


@pytest.mark.parametrize("kind", sorted(WRONG))
def test_a_mistake_carries_its_code_and_the_page_shows_such_a_one(kind: Kind, tmp_path: Path) -> None:
    error = wrong(tmp_path / "kill.chaos.yaml", kind)
    assert [problem.kind for problem in error.problems] == [kind], str(error)
    assert codes.of_error(error) == f"scenario.{kind}"
    head = codes.told(error).split("\n")[0]
    assert head.endswith(f" [scenario.{kind}]")
    shown = re.sub(r"^\S+: ", "", head.removeprefix(f"{tmp_path}/"))
    example = sections(codes.page(f"scenario.{kind}").text)["Example"]
    assert pattern(shown) in pattern(example), "the page's example is not what is printed"


def pattern(text: str) -> str:
    """Return *text* without what differs from one mistake to the next: names, numbers, and what is suggested."""
    return re.sub(r"'[^']*'|\d+|\s+", "·", text)


def test_an_unreadable_file_has_a_code_too(tmp_path: Path) -> None:
    assert set(WRONG) | {Kind.UNREADABLE} == set(Kind)
    with pytest.raises(ScenarioError) as caught:
        load(tmp_path / "none.chaos.yaml")
    assert codes.of_error(caught.value) == "scenario.unreadable"


def test_an_error_without_codes_reads_as_before(tmp_path: Path) -> None:
    error = wrong(tmp_path / "kill.chaos.yaml", Kind.UNKNOWN_FIELD)
    assert "[scenario" not in str(error) and str(error) == "\n".join(each.text() for each in error.problems)


def raising(path: Path) -> bool:
    """Tell whether the module raises a HarnessError."""
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "HarnessError"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    )


def test_every_module_that_raises_a_harness_error_has_a_code() -> None:
    nameless = {
        module
        for top in (PACKAGE, *(PACKAGE / link for link in ("plugins", "reports", "targets")))  # rglob enters no links
        for path in top.rglob("*.py")
        if raising(path)
        for module in [".".join(["chaos", *path.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(".__init__")]
        if codes._part(module) == ""
    }
    assert nameless == set(), "add them to codes.BY_MODULE"


def test_the_module_that_raised_tells_the_code(tmp_path: Path) -> None:
    from chaos import results
    from chaos.sandbox import mounts

    with pytest.raises(HarnessError) as caught:
        results.read(tmp_path)
    assert codes.of_error(caught.value) == "harness.no-campaign"
    with pytest.raises(HarnessError) as caught:
        mounts.command("false")
    assert codes.of_error(caught.value) == "harness.disk"
    assert codes.of_error(HarnessError("nobody raised it")) == "harness.other"
    assert codes.told(HarnessError("one\ntwo")) == "one [harness.other]\ntwo"


def test_an_unknown_code_is_answered_with_what_may_be_meant() -> None:
    for typed, meant in (("check.efects", "check.effects"), ("effects", "check.effects"), ("stuck", "verdict.stuck")):
        with pytest.raises(UnknownName, match=f"did you mean '{meant}'"):
            codes.page(typed)
    with pytest.raises(UnknownName, match="lists all"):
        codes.page("xyzzy")


class Punctual:
    """Every reply comes in time.

    The clock of the endpoint counts.
    """


def test_a_check_of_another_package_gets_a_page_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "names", lambda kind: ["punctual"])
    monkeypatch.setattr(registry, "load", lambda kind, name: Punctual)
    page = codes.page("check.punctual")
    assert page.title == "Every reply comes in time"
    assert tuple(sections(page.text)) == codes.HEADINGS and all(sections(page.text).values())
    assert sections(page.text)["What was compared"] == "The clock of the endpoint counts."
