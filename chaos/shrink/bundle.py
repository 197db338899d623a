"""A failure as a folder that can be kept, sent and run: the scenario, a test, both journals, and how to use them.

scenario.chaos.yaml    the smallest failing case, complete: `pytest --chaos scenario.chaos.yaml` fails in the same way
test_NAME.py           the same without `--chaos`, anywhere: passes when the agent is mended
journal.jsonl          what was seen when it failed
reference.jsonl        and in the crash-free run that it is compared with
README.md              what broke, and how to run it
"""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Mapping
from pathlib import Path

from pydantic import JsonValue

from chaos.plan import Case
from chaos.results import Minimal
from chaos.shrink.document import WIDTH, block, compact

SCENARIO, JOURNAL, REFERENCE, README = "scenario.chaos.yaml", "journal.jsonl", "reference.jsonl", "README.md"
FAILURES = "failures"  # folder among the results; a failure of the same name takes the place of an earlier one

_TEST = '''\
"""{title}"""

from chaos import reproduce

SCENARIO = """\\
{scenario}"""


def test_{function}() -> None:
    reproduce(SCENARIO, case="{case}")
'''

_README = """\
# {title}

{sentence}

- `pytest {test}` fails as it did, and passes when the agent is mended: copy the file into your tests.
- `{replay}` runs it with a report.{alone}
- `journal.jsonl` is what was seen, `reference.jsonl` the crash-free run that it is compared with.
"""


def begin(folder: Path, found: Mapping[str, JsonValue]) -> Path:
    """Begin the bundle in *folder*, in place of an earlier one; return the path of the scenario *found* in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    path = folder / SCENARIO
    path.write_text(block(found), encoding="utf-8")
    return path


_ALONE = " Without `--chaos-case` it is a campaign of this one run."


def finish(
    folder: Path, found: Mapping[str, JsonValue], case: Case, title: str, minimal: Minimal, seen: Path, *, alone: bool
) -> None:
    """Complete the bundle in *folder* of the scenario *found*.

    Args:
        title: what failed, in a few words.
        seen: journal of the crash-free run.
        alone: the scenario plans nothing but *case*. One whose faults follow each other as no `at:` can say needs it.
    """
    shutil.copyfile(seen, folder / REFERENCE)
    name = "_".join((str(found["scenario"]), folder.name))
    test = folder / f"test_{_word(name)}.py"
    text = compact(found).replace("\\", "\\\\").replace('"""', r"\"\"\"")
    title = textwrap.shorten(title.replace("\\", "/").replace('"', "'"), WIDTH, placeholder=" …")
    function = _word(str(case.plan).replace("+", "_then_").replace("@", "_at_"))
    test.write_text(_TEST.format(title=title, scenario=text, function=function, case=case), encoding="utf-8")
    words = {"title": title, "sentence": minimal.sentence, "test": test.name, "replay": minimal.replay}
    words["alone"] = _ALONE if alone else ""
    (folder / README).write_text(_README.format(**words), encoding="utf-8")


def _word(text: str) -> str:
    """Return *text* as a part of a name in Python."""
    return re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").lower()
