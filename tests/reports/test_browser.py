"""The report opened from disk in a real browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from chaos.reports import html, matrix
from chaos.results import Campaign

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SECONDS = 60  # a cold start on a busy machine

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH (Debian: apt-get install chromium)")

FRAME = """
<script>
const phone = document.createElement("iframe");
phone.style = "width:390px;height:900px;border:0";
const text = document.getElementById("page").textContent;
const all = (selector) => [...phone.contentDocument.querySelectorAll(selector)];
phone.onload = async () => { document.title = JSON.stringify(await measured(phone.contentDocument, {})); };
phone.srcdoc = text;
document.body.append(phone);
"""
"""The page in a frame as wide as a phone; what `measured` returns becomes the title of the page around it."""

MEASURE = """
async function measured(page, found) {
  const root = page.documentElement;
  found.overflow = root.scrollWidth - root.clientWidth;
  found.cells = all("table.matrix tbody td").length;
  found.dead = all("a").filter(a => !page.querySelector(a.getAttribute("href"))).length;
  found.cut = all("h1, h3, .figures li, .command code")
    .filter(e => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== "inline").length;
  found.buttons = all("button.copy:not([hidden])").length - all("button.copy").length;
  const section = page.querySelector("details.cell:not([open]) .body");
  phone.contentWindow.location.hash = section.id;
  await new Promise(done => setTimeout(done, 200));
  found.opened = section.closest("details").open;
  const failure = all("section.failure").at(-1);
  found.closed = failure.querySelector("details").open;
  phone.contentWindow.location.hash = failure.id;
  await new Promise(done => setTimeout(done, 200));
  found.shown = failure.querySelector("details").open;
  return found;
}
</script>
"""

KEYS = """
async function measured(page, found) {
  const {Event, KeyboardEvent} = phone.contentWindow;
  const press = (key) => page.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
  const here = () => all("section.failure").indexOf(page.activeElement);
  const change = (input) => input.dispatchEvent(new Event("input", {bubbles: true}));
  const shown = (selector) => all(selector).filter(e => !e.hidden).length;
  const form = page.querySelector("form.filters");
  phone.focus();
  found.path = [..."jjkkk"].map(key => (press(key), here()));
  press("/");
  found.searching = page.activeElement.name;
  press("j");
  found.typing = page.activeElement.name;
  press("Escape");
  found.left = page.activeElement === page.body;
  found.all = shown("section.failure");
  form.elements.failing.checked = true; change(form.elements.failing);
  found.failing = all("section.failure").every(e => e.hidden === ("expected" in e.dataset));
  found.dimmed = all("td[data-state]").every(
    e => e.classList.contains("dimmed") === ["recovered", "expected loss", "skipped"].includes(e.dataset.state));
  form.elements.failing.checked = false;
  const fault = form.querySelector("input[name=fault][value=evict]");
  fault.checked = true; change(fault);
  found.columns = all("table.matrix thead th").filter(e => !e.hidden).map(e => e.textContent);
  found.lines = all("table.matrix tbody tr").every(row => [...row.cells].filter(e => !e.hidden).length === 2);
  found.evict = all("section.failure").filter(e => !e.hidden).every(e => e.dataset.fault.split("|").includes("evict"));
  fault.checked = false;
  form.elements.text.value = "NO SUCH THING"; change(form.elements.text);
  found.none = shown("section.failure, details.cell");
  found.said = form.querySelector("output").textContent;
  form.elements.text.value = ""; change(form.elements.text);
  found.again = shown("section.failure") === found.all;
  phone.contentWindow.dispatchEvent(new Event("beforeprint"));
  found.printed = all("details:not([open])").length;
  phone.contentWindow.dispatchEvent(new Event("afterprint"));
  found.after = all("details:not([open])").length > 0;
  return found;
}
</script>
"""

AXE = """
async function measured(page, found) {
  for (const details of all("details")) details.open = true;
  const script = page.createElement("script");
  script.textContent = document.getElementById("axe").textContent;
  page.head.append(script);
  const result = await phone.contentWindow.axe.run(page, {resultTypes: ["violations"]});
  found.rules = result.passes.map(p => p.id);
  found.background = getComputedStyle(page.body).backgroundColor;
  found.violations = result.violations.map(
    v => [v.id, v.nodes.length, v.nodes[0].html.slice(0, 200), v.nodes[0].failureSummary]);
  return found;
}
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
    assert len(re.findall(r"<td class=\"[^\"]*\"[^>]*><a href=\"#(?:cell|failure)-", dom)) == len(found.judged)
    assert dom.count('class="copy"') == dom.count('<button class="copy" type="button">')  # the script ran, CSP and all
    assert '<form class="filters">' in dom


def measure(report: Path, folder: Path, script: str, *options: str, more: str = "") -> dict[str, Any]:
    """Return what *script* finds in *report*. The page's own policy forbids it, so it measures a copy without that."""
    page = re.sub(r"<meta http-equiv=.*?>", "", report.read_text(encoding="utf-8"))
    escaped = page.replace("&", "&amp;").replace("<", "&lt;")
    around = folder / "around.html"
    text = f'<meta charset="utf-8"><textarea id="page" hidden>{escaped}</textarea>{more}{FRAME}{script}'
    around.write_text(text, encoding="utf-8")
    title = re.search(r"<title>(.*?)</title>", browse(around, folder / "profile", "--dump-dom", *options), re.DOTALL)
    assert title is not None, "the measuring script did not run"
    found: dict[str, Any] = json.loads(unescape(title[1]))
    return found


def test_on_a_phone_nothing_overflows_and_links_open_their_section(report: Path, tmp_path: Path) -> None:
    assert measure(report, tmp_path, MEASURE, "--window-size=800,1000") == {
        "overflow": 0, "cells": 24, "dead": 0, "cut": 0, "buttons": 0, "opened": True, "closed": False, "shown": True,
    }  # fmt: skip


def test_keys_and_filters_find_the_failures(report: Path, tmp_path: Path) -> None:
    found = measure(report, tmp_path, KEYS)
    assert found == {
        "path": [0, 1, 0, 0, 0], "searching": "text", "typing": "text", "left": True, "all": found["all"],
        "failing": True, "dimmed": True, "columns": ["strategy", "evict"], "lines": True, "evict": True,
        "none": 0, "said": f"0 of {found['all']} causes shown", "again": True, "printed": 0, "after": True,
    }  # fmt: skip
    assert found["all"] > 3


@pytest.mark.skipif(find_spec("axe_playwright_python") is None, reason="axe-playwright-python is not installed")
@pytest.mark.parametrize(("scheme", "background"), [("1", "rgb(255, 255, 255)"), ("0", "rgb(20, 23, 27)")])
def test_axe_finds_nothing(report: Path, tmp_path: Path, scheme: str, background: str) -> None:
    spec = find_spec("axe_playwright_python")  # it has axe-core in it; the rest of it is not used
    assert spec is not None and spec.origin is not None
    axe = (Path(spec.origin).parent / "axe.min.js").read_text(encoding="utf-8").replace("</script", "<\\/script")
    plain = f'<script type="text/plain" id="axe">{axe}</script>'
    colours = f"--blink-settings=preferredColorScheme={scheme}"
    found = measure(report, tmp_path, AXE, colours, "--virtual-time-budget=60000", more=plain)
    assert found["violations"] == []
    assert found["background"] == background
    assert {"color-contrast", "landmark-unique", "label", "region"} <= set(found["rules"])


def test_without_javascript_there_are_no_filters_and_everything_is_there(report: Path, tmp_path: Path) -> None:
    page = re.sub(r"<script>.*?</script>", "", report.read_text(encoding="utf-8"), flags=re.DOTALL)
    plain = tmp_path / "plain.html"
    plain.write_text(page, encoding="utf-8")
    dom = browse(plain, tmp_path / "profile", "--dump-dom")
    assert '<form class="filters" hidden="">' in dom
    assert dom.count('<section class="failure"') == page.count('<section class="failure"') > 3


@pytest.mark.parametrize("scheme", ["0", "1"])
def test_both_colour_schemes_are_drawn(report: Path, tmp_path: Path, scheme: str) -> None:
    picture = tmp_path / "page.png"
    browse(report, tmp_path / "profile", f"--screenshot={picture}", f"--blink-settings=preferredColorScheme={scheme}")
    assert picture.stat().st_size > 20_000  # an empty page is a few kB
