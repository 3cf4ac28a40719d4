// The script of the page: records, and light or dark.
// Model output is only ever set as text, never as HTML.
"use strict";

const PAGE = 50;
const NONE = "";
const FAILED = "failed";
const KEPT = "\n\t\u200c\u200d";
const STYLE = "(?<=[\\p{So}\\p{Sm}\\p{Po}\\p{Nd}\\p{Sk}])[\\ufe0e\\ufe0f]";
const BLANK = "\\p{DI}\\u2028\\u2029\\u2800\\u{16fe4}\\u{1d159}";
const HIDDEN = new RegExp(`(?!${STYLE})[\\p{Cc}\\p{Cf}\\p{Cs}\\p{Co}\\p{Cn}${BLANK}]`, "gu");
const REDACTED = /^\[redacted: sha256 [0-9a-f]+, \d+ characters\]$/;
const $ = (id) => document.getElementById(id);
const all = (selector) => [...document.querySelectorAll(selector)];

// Like visible() in render.py: control characters as pictures, other invisible ones as U+FFFD.
const visible = (text) => text.replaceAll("\r\n", "\n").replace(HIDDEN, (char) => {
  if (KEPT.includes(char)) return char;
  if (char < " ") return String.fromCharCode(0x2400 + char.charCodeAt(0));
  return char === "\x7f" ? "\u2421" : "\ufffd";
});

function make(tag, name, ...children) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  node.append(...children.filter((child) => child !== null && child !== ""));
  return node;
}

// A block of untrusted text in its own direction, with matches of the search marked.
function block(tag, name, text, pattern) {
  const node = make(tag, REDACTED.test(text) ? `${name} empty` : name);
  node.dir = "auto";
  let end = 0;
  const seen = visible(text);
  for (const found of pattern ? seen.matchAll(new RegExp(pattern.source, "giu")) : []) {
    node.append(seen.slice(end, found.index), make("mark", "", found[0]));
    end = found.index + found[0].length;
  }
  node.append(seen.slice(end));
  return node;
}

// records.py says what each place in the arrays holds.
const read = (node) => JSON.parse(node.textContent);
function load() {
  const benchmarks = all("script.records").map(read);
  const gates = all("script.gates").map(read)[0];
  const entries = [];
  for (const bench of benchmarks) {
    for (const [id, groups, turns, score, against, reference, answers] of bench.prompts) {
      entries.push({ bench, id, groups, turns, score, against, reference, answers });
    }
  }
  return { benchmarks, gates, entries };
}

let data, found = [], page = 0, pattern = null;

const judged = (entry, index) => entry.bench.words[entry.answers[index][1][0]];
const turnsOf = (entry) => typeof entry.turns === "string" ? [["user", entry.turns]] : entry.turns;

function* texts(entry) {
  yield entry.id;
  for (const [, text] of turnsOf(entry)) yield text;
  if (entry.reference) yield entry.reference;
  for (const [text, [, category, rationale], , votes] of entry.answers) {
    if (text) yield text;
    if (category) yield category;
    yield rationale;
    for (const [, [, , reason]] of votes) yield reason;
  }
}

const escaped = (text) => text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
const someText = (entry) => {
  for (const text of texts(entry)) if (pattern.test(text)) return true;
  return false;
};

// The entries that pass the filters.
function matching() {
  const benchmark = $("benchmark").value, invalid = $("invalid").checked;
  const gate = $("gate").value;
  const counts = (number) => gate === FAILED ? data.gates[number][1] : number === Number(gate);
  const group = $("group").value === NONE ? null : JSON.parse($("group").value);
  const verdict = $("verdict").value === NONE ? null : JSON.parse($("verdict").value);
  const query = $("query").value.trim();
  pattern = query ? new RegExp(escaped(query), "iu") : null;
  const says = (entry, n) => verdict[0] === "word"
    ? judged(entry, n)[0] === verdict[1] : entry.answers[n][1][1] === verdict[1];
  const some = (entry, test) => entry.answers.some((_, n) => test(entry, n));
  return data.entries.filter((entry) =>
    (!benchmark || entry.bench.name === benchmark) &&
    (gate === NONE || entry.against.some(counts)) &&
    (!group || entry.groups[entry.bench.groups.indexOf(group[0])] === group[1]) &&
    (!invalid || some(entry, (e, n) => judged(e, n)[1] === "invalid")) &&
    (!verdict || some(entry, says)) &&
    (!pattern || someText(entry)));
}

const number = (count) => count.toLocaleString("en");
const plural = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

function show(to = 0) {
  page = to;
  const pages = Math.max(1, Math.ceil(found.length / PAGE));
  $("list").replaceChildren(...found.slice(page * PAGE, (page + 1) * PAGE).map(row));
  $("page").textContent = `Page ${number(page + 1)} of ${number(pages)}`;
  $("previous").disabled = page === 0;
  $("next").disabled = page >= pages - 1;
  $("pages").hidden = pages === 1;
}

function update() {
  found = matching();
  const answers = found.reduce((sum, entry) => sum + entry.answers.length, 0);
  $("count").textContent = found.length
    ? `${plural(found.length, "prompt")}, ${plural(answers, "answer")}` +
      (found.length < data.entries.length ? ` of ${plural(data.entries.length, "prompt")}` : "")
    : "No record matches these filters.";
  show();
  remember();
}

// Verdicts in words, each with its number if there are several answers.
function verdicts(words) {
  const counts = new Map();
  for (const [word] of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  return [...counts].map(([word, count]) => (words.length > 1 ? `${count} ` : "") + visible(word)).join(", ");
}

// One prompt: its verdicts and how it begins; the answers are built when it is first opened.
function row(entry) {
  const unfold = $("unfold").checked;
  const node = make("details", "record");
  const dots = make("span", "dots");
  const words = entry.answers.map((_, n) => judged(entry, n));
  dots.ariaHidden = "true"; // the words say the same
  dots.append(...words.map(([word, tone]) => {
    const dot = make("span", `dot ${tone}`);
    dot.title = visible(word);
    return dot;
  }));
  const snippet = turnsOf(entry).at(-1)[1].slice(0, 300);
  const tones = new Set(words.map(([, tone]) => tone));
  node.append(make("summary", "",
    dots,
    make("span", `said ${tones.size === 1 ? words[0][1] : ""}`, verdicts(words)),
    block("bdi", "id", entry.id, pattern),
    block("span", "of", [entry.bench.name, ...entry.groups.filter(Boolean)].join(" · ")),
    block("span", "snippet", snippet.replaceAll("\n", " ")),
    make("span", "score", entry.score === null ? "" : `${entry.score < 0 ? "" : "+"}${entry.score.toFixed(2)}`)));
  const fill = () => { if (node.open && !node.querySelector(".body")) node.append(body(entry)); };
  node.addEventListener("toggle", () => { fill(); reachable(node); });
  if (unfold) { node.open = true; fill(); }
  return node;
}

// Lets the keyboard reach everything that scrolls on its own.
function reachable(within) {
  for (const node of within.querySelectorAll(".text, .tall, .scroll")) {
    if (node.scrollHeight > node.clientHeight || node.scrollWidth > node.clientWidth) node.tabIndex = 0;
  }
}

function body(entry) {
  const node = make("div", "body");
  if (entry.against.length) {
    const names = entry.against.map((gate) => data.gates[gate][0]).join(", ");
    node.append(block("p", "of", `counts against ${names}`));
  }
  for (const [role, text] of turnsOf(entry)) {
    node.append(make("div", "turn",
      make("div", "role", make("strong", "", role === "user" ? "Prompt" : visible(role))),
      block("div", "text", text, pattern)));
  }
  if (entry.reference) node.append(block("p", "of", `reference: ${entry.reference}`, pattern));
  entry.answers.forEach((_, n) => node.append(reply(entry, n)));
  return node;
}

function reply(entry, n) {
  const [text, judgement, facts, votes] = entry.answers[n];
  const node = make("div", `reply ${judged(entry, n)[1]}`,
    make("div", "role", make("span", "", `Answer ${n + 1}`), ...said(entry, judgement),
      block("span", "", facts)),
    text ? block("div", "text", text, pattern) : make("p", "empty", "no answer"),
    // Several judges together have no reason but theirs, which follow.
    judgement[2] && !votes.some(([, vote]) => vote[2]) ? block("p", "rationale", judgement[2], pattern) : null);
  for (const [judge, vote] of votes) {
    node.append(make("div", "role", block("bdi", "", entry.bench.judges[judge]), ...said(entry, vote)));
    if (vote[2]) node.append(block("p", "rationale", vote[2], pattern));
  }
  return node;
}

const said = (entry, [word, category]) => [
  make("strong", entry.bench.words[word][1], visible(entry.bench.words[word][0])),
  category ? block("span", "", category.replaceAll("_", " ")) : null,
];

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
  for (const name of FIELDS) if ($(name).value) state.set(name, $(name).value);
  if ($("gate").value === usual()) state.delete("gate");
  else if ($("gate").value === NONE) state.set("gate", "any");
  if ($("invalid").checked) state.set("invalid", "1");
  const hash = state.toString();
  if (hash || location.hash.includes("=")) history.replaceState(null, "", `#${hash || "records"}`);
}

function recall() {
  const state = new URLSearchParams(location.hash.slice(1));
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

function clear() {
  for (const name of FIELDS) $(name).value = NONE;
  offer();
  $("invalid").checked = $("unfold").checked = false;
}

function against(node) {
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

function turn(by) {
  show(page + by);
  $("count").scrollIntoView();
}

let waiting = 0;
function startRecords() {
  document.addEventListener("keydown", (event) => {
    const inField = event.target.closest("input, select, textarea");
    if (event.key === "Escape" && inField) return inField.blur();
    if (inField || event.ctrlKey || event.metaKey || event.altKey || !(event.key in KEYS)) return;
    event.preventDefault();
    KEYS[event.key]();
  });

  $("query").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(update, 150);
  });
  for (const name of ["group", "verdict", "gate", "invalid"]) $(name).addEventListener("change", update);
  $("benchmark").addEventListener("change", () => { offer(); update(); });
  $("unfold").addEventListener("change", () => show(page));
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("filters").addEventListener("reset", (event) => { event.preventDefault(); clear(); update(); });
  for (const node of all("button.against")) {
    node.hidden = false;
    node.addEventListener("click", () => against(node));
  }
  $("previous").addEventListener("click", () => turn(-1));
  $("next").addEventListener("click", () => turn(1));

  addEventListener("hashchange", () => {
    if (!location.hash.includes("=")) return; // a link within the page
    clear();
    recall();
  });

  $("browser").hidden = false;
  data = load();
  reachable(document);
  choices($("benchmark"), "all", [[null, data.benchmarks.map(({ name, prompts }) => [name, `${name} (${number(prompts.length)})`])]]);
  offer();
  recall();
}

// The button for light or dark; without a choice, the system's.
function startTheme() {
  const button = $("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement.dataset;
  const isDark = () => (root.theme ?? (dark.matches ? "dark" : "light")) === "dark";
  const label = () => { button.textContent = isDark() ? "Light" : "Dark"; };
  button.addEventListener("click", () => {
    root.theme = isDark() ? "light" : "dark";
    label();
  });
  dark.addEventListener("change", label);
  label();
  button.hidden = false;
}

startTheme();
if ($("browser")) startRecords();
