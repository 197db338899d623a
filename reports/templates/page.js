"use strict";
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const one = (selector) => document.querySelector(selector);

// Copy buttons: beside what they copy.
for (const button of all("button.copy")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const code = button.previousElementSibling;
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "selected";
    }
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  });
}

// A link to a failure opens its evidence.
const open = () => {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target && target.matches("section.failure")) for (const evidence of all(":scope > details", target)) evidence.open = true;
};
addEventListener("hashchange", open);
open();

// Paper shows everything.
let closed = [];
addEventListener("beforeprint", () => {
  closed = all("details:not([open])");
  for (const each of closed) each.open = true;
});
addEventListener("afterprint", () => { for (const each of closed) each.open = false; });

// Filters: what is not wanted is hidden; no choice of a kind means all of it.
const form = one("form.filters");
const sections = all("section.failure, details.cell");
const listed = (element, name, chosen) => !chosen.length || (element.dataset[name] || "").split("|").some((value) => chosen.includes(value));
const filter = () => {
  const chosen = (name) => all(`input[name="${name}"]:checked`, form).map((input) => input.value);
  const [strategies, faults, verdicts] = ["strategy", "fault", "verdict"].map(chosen);
  const words = form.elements.text.value.trim().toLowerCase();
  const failing = form.elements.failing.checked;
  const regressions = form.elements.regressions && form.elements.regressions.checked;
  const bad = ["broken", "refused", "sometimes", "harness error", "unexpectedly kept", "not exercised", "unknown"];
  const isBad = (element) => !("expected" in element.dataset) && (element.dataset.state || "").split("|").some((state) => bad.includes(state));
  for (const section of sections) {
    section.hidden = !(listed(section, "strategy", strategies) && listed(section, "fault", faults) && listed(section, "state", verdicts)
      && (!failing || isBad(section)) && (!regressions || section.dataset.news === "new")
      && (!words || section.textContent.toLowerCase().includes(words)));
  }
  for (const row of all("table.matrix tbody tr")) {
    row.hidden = !listed(row, "strategy", strategies);
    for (const cell of all("td", row)) {
      cell.classList.toggle("dimmed", !(listed(cell, "state", verdicts) && (!failing || isBad(cell))));
    }
  }
  for (const table of all("table.matrix")) {
    all("thead th[data-fault]", table).forEach((head, column) => {
      head.hidden = !listed(head, "fault", faults);
      for (const row of all("tbody tr", table)) row.cells[column + 1].hidden = head.hidden;
    });
  }
  const shown = sections.filter((section) => !section.hidden && section.matches(".failure")).length;
  const count = all("section.failure").length;
  form.querySelector("output").textContent = shown === count ? "" : `${shown} of ${count} causes shown`;
};
if (form) {
  form.hidden = false;
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
}

// Keys: "/" to the search, j and k from failure to failure.
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, select, textarea")) {
    if (event.key === "Escape" && event.target.matches?.("input")) event.target.blur();
    return;
  }
  if (event.key === "/" && form) {
    event.preventDefault();
    form.elements.text.focus();
  } else if (event.key === "j" || event.key === "k") {
    const places = all("section.failure").filter((section) => !section.hidden);
    const here = places.indexOf(document.activeElement?.closest("section.failure"));
    const next = places[event.key === "j" ? Math.min(here + 1, places.length - 1) : Math.max(here - 1, 0)];
    if (!next) return;
    next.focus({preventScroll: true});
    next.scrollIntoView({block: "start"});
  }
});
