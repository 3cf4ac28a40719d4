// The filters, the keyboard, the address and the theme; after records.js.
"use strict";

// The choices of the filters: what occurs in the run.
function option(value, text) {
  const node = make("option", "", visible(text));
  node.value = value;
  return node;
}

function choices(select, first, sections) {
  const kept = select.value;
  select.replaceChildren(option(NONE, first));
  for (const [label, entries] of sections) {
    const nodes = [...entries].map(([value, text]) => option(value, text));
    if (!nodes.length) continue;
    if (label) {
      const group = make("optgroup", "", ...nodes);
      group.label = visible(label);
      select.append(group);
    } else select.append(...nodes);
  }
  select.value = kept;
  if (select.selectedIndex < 0) select.value = NONE;
}

const named = (kind, values) => [...values].sort().map((value) => [JSON.stringify([kind, value]), value]);

function offer() {
  const name = $("benchmark").value;
  const groups = new Map(), words = new Set(), ways = new Set(), against = new Map();
  for (const entry of data.entries) {
    if (name && entry.bench.name !== name) continue;
    entry.bench.groups.forEach((kind, n) => {
      if (!groups.has(kind)) groups.set(kind, new Set());
      if (entry.groups[n]) groups.get(kind).add(entry.groups[n]);
    });
    for (const [, [word, category]] of entry.answers) {
      words.add(entry.bench.words[word][0]);
      if (category) ways.add(category);
    }
    for (const gate of entry.against) against.set(gate, (against.get(gate) ?? 0) + 1);
  }
  choices($("group"), "all", [...groups].map(([kind, values]) => [kind, named(kind, values)]));
  choices($("verdict"), "all", [[null, named("word", words)], ["kind of refusal", named("way", ways)]]);
  const failed = [...against.keys()].some((gate) => data.gates[gate][1]);
  choices($("gate"), "any", [[null, failed ? [[FAILED, "any failed gate"]] : []],
    [null, [...against].sort(([a], [b]) => a - b)
      .map(([gate, count]) => [String(gate), `${data.gates[gate][0]} (${number(count)})`])]]);
}

// A page opens on what counts against a failed gate; without one, on everything.
const usual = () => [...$("gate").options].some(({ value }) => value === FAILED) ? FAILED : NONE;

// The view is in the address, so that a link to it can be shared.
const FIELDS = ["benchmark", "group", "verdict", "gate", "query"];
function remember() {
  const state = new URLSearchParams();
  if (run) state.set("run", run);
  for (const name of FIELDS) if ($(name).value) state.set(name, $(name).value);
  if ($("gate").value === usual()) state.delete("gate");
  else if ($("gate").value === NONE) state.set("gate", "any");
  if ($("invalid").checked) state.set("invalid", "1");
  const hash = state.toString();
  if (hash || location.hash.includes("=")) history.replaceState(null, "", `#${hash || "records"}`);
}

function recall() {
  const state = new URLSearchParams(location.hash.slice(1));
  const wanted = Number(state.get("run") ?? 0);
  choose(all("article.run").some(of(wanted)) ? wanted : 0);
  for (const name of FIELDS) {
    if (!state.get(name)) continue;
    $(name).value = state.get(name);
    if ($(name).selectedIndex < 0) $(name).value = NONE;
    if (name === "benchmark") offer();
  }
  if (!state.has("gate")) $("gate").value = usual();
  $("invalid").checked = state.has("invalid");
  update();
  if (location.hash.includes("=")) $("records").scrollIntoView();
}

function choose(to) {
  run = to;
  if (!runs.has(run)) runs.set(run, load(run));
  data = runs.get(run);
  for (const node of all("article.run")) node.hidden = !of(run)(node);
  for (const node of all("[data-section]")) {
    node.id = node.closest("article").hidden ? "" : node.dataset.section; // the target of the links
  }
  for (const node of all(".select")) node.setAttribute("aria-pressed", of(run)(node));
  reachable(document);
  if ($("run")) $("run").value = run;
  choices($("benchmark"), "all", [[null, data.benchmarks.map(({ name, prompts }) => [name, `${name} (${number(prompts.length)})`])]]);
  offer();
}

function clear() {
  for (const name of FIELDS) $(name).value = NONE;
  offer();
  $("invalid").checked = $("unfold").checked = false;
}

function against(node) {
  if (!of(run)(node)) choose(Number(node.dataset.run));
  clear();
  $("gate").value = node.dataset.gate;
  update();
  $("records").scrollIntoView();
  $("list").querySelector("summary")?.focus({ preventScroll: true });
}

function step(by) {
  const rows = [...$("list").querySelectorAll("summary")];
  const at = rows.indexOf(document.activeElement);
  rows[Math.min(rows.length - 1, Math.max(0, at + by))]?.focus();
}

const KEYS = {
  "/": () => { $("query").focus(); $("query").select(); },
  j: () => step(1),
  k: () => step(-1),
  n: () => $("next").click(),
  p: () => $("previous").click(),
};

document.addEventListener("keydown", (event) => {
  const inField = event.target.closest("input, select, textarea");
  if (event.key === "Escape" && inField) return inField.blur();
  if (inField || event.ctrlKey || event.metaKey || event.altKey || !(event.key in KEYS)) return;
  event.preventDefault();
  KEYS[event.key]();
});

let waiting = 0;
$("query").addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(update, 150);
});
for (const name of ["group", "verdict", "gate", "invalid"]) $(name).addEventListener("change", update);
$("benchmark").addEventListener("change", () => { offer(); update(); });
$("unfold").addEventListener("change", () => show(page));
$("filters").addEventListener("submit", (event) => event.preventDefault());
$("filters").addEventListener("reset", (event) => { event.preventDefault(); clear(); update(); });
function change(to) {
  choose(to);
  $("gate").value = usual();
  update();
}
$("run")?.addEventListener("change", () => change(Number($("run").value)));
for (const node of all(".select")) node.addEventListener("click", () => change(Number(node.dataset.run)));
for (const node of all("button.against")) {
  node.hidden = false;
  node.addEventListener("click", () => against(node));
}
function turn(by) {
  show(page + by);
  $("count").scrollIntoView();
}
$("previous").addEventListener("click", () => turn(-1));
$("next").addEventListener("click", () => turn(1));

addEventListener("hashchange", () => {
  if (!location.hash.includes("=")) return; // a link within the page
  clear();
  recall();
});

$("browser").hidden = false;
recall();
