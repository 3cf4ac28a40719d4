"use strict";
// Everything from the run is shown as text: nothing is parsed as HTML.

const KEPT = 300;
const PAUSE = 1000;
const STATUS = {
  starting: "starting",
  running: "running",
  ended: "ended",
  stopped: "ended early",
  lost: "run the same command again to continue from the stored answers: its process is gone",
};
let after = 0;

function make(tag, text, name) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (name) element.className = name;
  return element;
}

function row(cells, tag) {
  const line = make("tr");
  for (const cell of cells) {
    if (cell instanceof Node) {
      const holder = make(tag || "td");
      holder.append(cell);
      line.append(holder);
    } else line.append(make(tag || "td", cell));
  }
  return line;
}

function table(head, rows, label) {
  const holder = make("div", undefined, "scroll");
  holder.tabIndex = 0;
  holder.setAttribute("role", "region");
  holder.setAttribute("aria-label", label);
  const found = make("table");
  const top = make("thead");
  top.append(row(head, "th"));
  const body = make("tbody");
  body.append(...rows);
  found.append(top, body);
  holder.append(found);
  return holder;
}

function mark(gate) {
  const word = gate.mark;
  if (!word) {
    if (gate.figure === undefined) return make("span", "waiting", "mark far");
    return make("span", gate.is_within ? "within so far" : "outside so far", "mark far");
  }
  const tone = /FAIL|ERROR/.test(word) ? "fail" : word === "pass" ? "pass" : "warn";
  return make("span", word, `mark ${tone}`);
}

function scale(gate) {
  const bar = make("div", undefined, "scale");
  bar.setAttribute("aria-hidden", "true");
  const [low, high] = gate.scale;
  const place = (value) => `${Math.max(0, Math.min(1, (value - low) / (high - low))) * 100}%`;
  if (gate.ends) {
    const span = make("i");
    span.style.left = place(gate.ends[0]);
    span.style.right = `calc(100% - ${place(gate.ends[2])})`;
    const point = make("b");
    point.style.left = place(gate.ends[1]);
    bar.append(span, point);
  }
  for (const bound of gate.bounds) {
    if (bound === null) continue;
    const line = make("u");
    line.style.left = place(bound);
    bar.append(line);
  }
  return bar;
}

function gateRow(gate) {
  const figure = gate.error || (gate.figure === undefined ? "" : `${gate.figure} ${gate.interval}`);
  return row([mark(gate), gate.id, figure, gate.n === undefined ? "" : String(gate.n), gate.must, scale(gate)]);
}

function benchmarkRow(benchmark) {
  const bar = make("progress");
  bar.max = Math.max(1, benchmark.planned);
  bar.value = benchmark.done ? bar.max : benchmark.judged;
  bar.setAttribute("aria-label", benchmark.name);
  return row([
    benchmark.name,
    bar,
    `${benchmark.judged} of ${benchmark.planned} prompts`,
    `${benchmark.answers} answers`,
    `${benchmark.invalid} invalid`,
  ]);
}

function show(run) {
  const section = make("section", undefined, "run");
  const title = make("h2", run.candidate || run.id);
  section.append(title, make("p", `judge ${run.judge || "unknown"}, run ${run.id}`, "note"));
  const phase = run.phase ? `: ${run.phase}` : "";
  section.append(make("p", STATUS[run.status] + phase, `status ${run.status === "lost" ? "fail" : ""}`));
  if (run.answer) section.append(make("p", `May it ship? ${run.answer}`, "answer-line"));
  if (run.failure) section.append(make("p", run.failure, "fail"));
  section.append(make("h3", "Progress"), table(["benchmark", "", "judged", "", ""], run.benchmarks.map(benchmarkRow), "Progress"));
  if (run.gates.length) {
    const rows = run.gates.map(gateRow);
    section.append(make("h3", "Gates"), table(["", "gate", "figure and interval", "n", "must be", ""], rows, "Gates"));
    if (run.gates.some((gate) => !gate.mark))
      section.append(make("p", "A figure of a benchmark that is not complete is an early look, by the judge's own verdicts; it decides nothing.", "note"));
  }
  return section;
}

function answer(found) {
  const item = make("li");
  const head = make("p");
  head.append(make("span", found.verdict, `verdict ${found.tone}`));
  head.append(make("span", [found.benchmark, found.id, ...found.groups].join(" · "), "where"));
  item.append(head);
  for (const name of ["prompt", "answer"]) {
    if (found[name] === undefined) continue;
    const text = make("p", found[name] || "(empty)", name);
    text.dir = "auto";
    item.append(text);
  }
  return item;
}

function update(state) {
  const scrolled = window.scrollY;
  const focused = document.activeElement && document.activeElement.getAttribute("aria-label");
  document.getElementById("runs").replaceChildren(...state.runs.map(show));
  if (focused) {
    const again = [...document.querySelectorAll("[tabindex]")].find((each) => each.getAttribute("aria-label") === focused);
    if (again) again.focus({ preventScroll: true });
  }
  const list = document.getElementById("answers");
  for (const found of state.answers) {
    after = Math.max(after, found.number);
    list.prepend(answer(found));
  }
  while (list.children.length > KEPT) list.lastElementChild.remove();
  document.getElementById("no-answers").hidden = list.children.length > 0;
  document.getElementById("hidden-texts").hidden = !state.runs.some((run) => run.redacted);
  if (scrolled && state.answers.length === 0) window.scrollTo(0, scrolled);
}

async function poll() {
  const connection = document.getElementById("connection");
  try {
    const reply = await fetch(`state?after=${after}`, { cache: "no-store" });
    if (!reply.ok) throw new Error(String(reply.status));
    const state = await reply.json();
    update(state);
    if (!state.goes_on) {
      connection.textContent = "The run has ended: this page shows its end and does not change any more.";
      return;
    }
    connection.textContent = "live";
    setTimeout(poll, PAUSE);
  } catch (fault) {
    connection.textContent = "The watcher does not answer: this page shows what it said last. Start `refusal-checks watch` again for a new one.";
    setTimeout(poll, 5 * PAUSE);
  }
}

poll();
