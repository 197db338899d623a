"""The site: it is built, every link in it leads somewhere, and nothing in it comes from elsewhere."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import DOCS, FENCE, ROOT

WRITTEN = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"!?\[[^]]*\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of *page*, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", heading.lower()) for heading in headings)
    return {re.sub(r"\s+", "-", text.strip()) for text in plain}


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_inside_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue  # elsewhere: a test without network cannot know
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        assert target.exists(), f"{page.name} links {link}"
        assert not anchor or anchor in anchors(target), f"{page.name} links {link}: no such heading"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built from a copy."""
    if importlib.util.find_spec("zensical") is None:
        pytest.skip("zensical is not installed; the extra 'dev' has it")
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(DOCS, folder / "docs")
    shutil.copy(ROOT / "zensical.toml", folder)
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


def test_the_site_is_built_without_a_warning(built: Path) -> None:
    """With --strict a link or an anchor that leads nowhere ends the build."""
    pages = {path.relative_to(built).with_suffix(".md") for path in built.rglob("*.html")}
    assert pages >= {path.relative_to(DOCS) for path in DOCS.rglob("*.md")}
    assert (built / "llms.txt").read_text() == (DOCS / "llms.txt").read_text()


def test_nothing_of_the_site_is_loaded_from_elsewhere(built: Path) -> None:
    for page in built.rglob("*.html"):
        tags = re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", page.read_text())
        assert [tag for tag in tags if re.search(r"""(?:src|href)=["']?(?:https?:)?//""", tag)] == [], page.name
    for sheet in built.rglob("*.css"):
        assert not re.search(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", sheet.read_text()), sheet.name
