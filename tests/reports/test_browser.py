"""The report opened from disk in a real browser."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from chaos.reports import html, matrix
from chaos.results import Campaign

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SECONDS = 60  # a cold start on a busy machine

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH (Debian: apt-get install chromium)")

MEASURE = """
<script>
const phone = document.createElement("iframe");
phone.style = "width:390px;height:900px;border:0";
const text = document.getElementById("page").textContent;
phone.onload = () => {
  const page = phone.contentDocument, root = page.documentElement, found = {};
  found.overflow = root.scrollWidth - root.clientWidth;
  found.cells = page.querySelectorAll("table.matrix tbody td").length;
  found.dead = [...page.querySelectorAll("a")].filter(a => !page.querySelector(a.getAttribute("href"))).length;
  found.cut = [...page.querySelectorAll("h1, h3, .figures li, .command code")]
    .filter(e => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== "inline").length;
  found.buttons = page.querySelectorAll("button.copy:not([hidden])").length;
  const section = page.querySelector("details.cell:not([open]) .body");
  phone.contentWindow.location.hash = section.id;
  setTimeout(() => {
    found.opened = section.closest("details").open;
    document.title = JSON.stringify(found);
  }, 200);
};
phone.srcdoc = text;
document.body.append(phone);
</script>
"""


def browse(page: Path, profile: Path, *options: str) -> str:
    """Return what Chromium prints about *page*, opened from disk without a network."""
    assert CHROMIUM is not None
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        f"--user-data-dir={profile}", "--virtual-time-budget=3000", *options, page.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def report(campaign: Campaign, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(html.render(campaign, folder), encoding="utf-8")
    return path


def test_the_page_opens_from_disk(report: Path, campaign: Campaign, tmp_path: Path) -> None:
    dom = browse(report, tmp_path, "--dump-dom")
    found = matrix.of(campaign)
    assert len(re.findall(r"<td class=\"[^\"]*\"><a href=\"#cell-", dom)) == len(found.judged)
    assert dom.count('class="copy"') == dom.count('<button class="copy" type="button">')  # the script ran, CSP and all


def test_on_a_phone_nothing_overflows_and_links_open_their_section(report: Path, tmp_path: Path) -> None:
    # The page's own policy forbids this test's script, so the variant is without it.
    page = re.sub(r"<meta http-equiv=.*?>", "", report.read_text(encoding="utf-8"))
    escaped = page.replace("&", "&amp;").replace("<", "&lt;")
    variant = tmp_path / "phone.html"
    variant.write_text(f'<meta charset="utf-8"><textarea id="page" hidden>{escaped}</textarea>{MEASURE}', "utf-8")
    dom = browse(variant, tmp_path / "profile", "--dump-dom", "--window-size=800,1000")
    title = re.search(r"<title>(.*?)</title>", dom)
    assert title is not None, "the measuring script did not run"
    assert title[1] == '{"overflow":0,"cells":24,"dead":0,"cut":0,"buttons":21,"opened":true}'


@pytest.mark.parametrize("scheme", ["0", "1"])
def test_both_colour_schemes_are_drawn(report: Path, tmp_path: Path, scheme: str) -> None:
    picture = tmp_path / "page.png"
    browse(report, tmp_path / "profile", f"--screenshot={picture}", f"--blink-settings=preferredColorScheme={scheme}")
    assert picture.stat().st_size > 20_000  # an empty page is a few kB
