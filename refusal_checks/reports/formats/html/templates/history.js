// The filters of the page of many runs: rows, charts and their points; lines join what is left.
"use strict";
const KINDS = ["candidate", "suite", "judge"];
const pick = (selector, within = document) => [...within.querySelectorAll(selector)];
const form = document.getElementById("filters");

let isWhole = true; // nothing is filtered, as the page was written
function filter() {
  const wanted = Object.fromEntries(KINDS.map((kind) => [kind, document.getElementById(kind).value]));
  const is = (kind, value) => !wanted[kind] || wanted[kind] === value;
  const untouched = isWhole && !wanted.candidate;
  isWhole = !wanted.candidate;
  const rows = pick("#runs tbody tr");
  for (const row of rows) {
    const { candidate, judge, suites } = row.dataset;
    row.hidden = !(is("candidate", candidate) && is("judge", judge) &&
      (!wanted.suite || JSON.parse(suites).includes(wanted.suite)));
  }
  for (const suite of pick(".suite")) {
    const cards = pick(".trend", suite).filter((node) => node.matches("figure"));
    for (const card of cards) card.hidden = !is("judge", card.dataset.judge) || (!untouched && !points(card, is));
    suite.hidden = !is("suite", suite.dataset.suite) || cards.every((card) => card.hidden);
  }
  const shown = rows.filter((row) => !row.hidden).length;
  document.getElementById("count").textContent =
    shown ? `${shown} of ${rows.length} runs shown` : "No run matches these filters.";
}

// Shows a chart's points of the wanted candidate and joins them; says how many these are.
function points(card, is) {
  const dots = pick(".dot", card);
  for (const dot of dots) dot.style.display = is("candidate", dot.dataset.candidate) ? "" : "none";
  const left = dots.filter((dot) => !dot.style.display);
  const draw = (selector, name, value, by) => card.querySelector(selector)
    ?.setAttribute(name, left.map((dot) => dot.dataset[value]).join(by));
  draw("polyline", "points", "at", " ");
  draw(".spans", "d", "span", "");
  draw(".bounds", "d", "bounds", "");
  return left.length;
}

// Empties the fields itself: a form is reset only after the event, too late for the filter.
function clear() {
  for (const kind of KINDS) document.getElementById(kind).value = "";
  filter();
}

if (form) {
  form.hidden = false;
  form.addEventListener("change", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", (event) => { event.preventDefault(); clear(); });
  filter();
}
