// Asks the server that it comes from, and nothing else.
const at = (id) => document.getElementById(id);
const rounded = (v) => Number(v.toPrecision(4));
const percent = (p) => (p === null ? "unknown" : p < 0.001 ? "< 0.1 %" : p > 0.999 ? "> 99.9 %" : `${(100 * p).toFixed(1)} %`);
const reason = (...found) => (found.includes(null) ? ` ${model.why_unknown.replace("unknown", "Unknown")}.` : "");
const shown = (v) => (v === null ? "missing" : String(Number(v.toPrecision(6))));
let model, asked = 0, searched = 0, values = [];
const changed = new Map();

function make(tag, text = "", attributes = {}) {
  const made = document.createElement(tag);
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

async function get(path, parameters = []) {
  const response = await fetch(`${path}?${new URLSearchParams(parameters)}`);
  const found = await response.json();
  if (!response.ok) throw new Error(`${found.error.what} (${found.error.where}): ${found.error.remedy}`);
  return response.status === 202 ? null : found;
}

function bar(low, high, text, mark) {
  const of = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(of, "svg");
  const part = (tag, attributes) => {
    const made = document.createElementNS(of, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    svg.append(made);
  };
  svg.setAttribute("viewBox", "0 0 100 12"); svg.setAttribute("preserveAspectRatio", "none"); svg.setAttribute("aria-hidden", "true");
  part("rect", { class: "track", x: 0, y: 1, width: 100, height: 10 });
  if (high !== null) part("rect", { class: "now", x: 100 * low, y: 1, width: Math.max(100 * (high - low), 0.5), height: 10 });
  if (mark !== undefined && mark !== null) part("line", { class: "was", x1: 100 * mark, x2: 100 * mark, y1: 0, y2: 12 });
  const box = make("div", "", { class: "bar" });
  box.append(svg, make("span", text));
  return box;
}

function table(columns, rows) {
  const made = make("table"), head = make("tr"), body = make("tbody");
  for (const column of columns) head.append(make("th", column, { scope: "col" }));
  const top = make("thead"); top.append(head); made.append(top, body);
  for (const row of rows) {
    const line = make("tr");
    for (const cell of row) { const td = make("td"); td.append(cell); line.append(td); }
    body.append(line);
  }
  return made;
}

const changes = (side = "") => [...changed].map(([field, value]) => ["set", `${side}${field}=${value}`]);

async function answer() {
  const number = ++asked, direction = at("direction").value, name = at("name").value, relation = at("relation").value;
  if (!name || !relation) return;
  try {
    const found = await get("/api/predict", [[direction, name], ["relation", relation], ["top", at("top").value], ["known", at("known").value], ...changes()]);
    if (number !== asked) return;
    at("error").textContent = "";
    const end = direction === "head" ? "tail" : "head", about = model.relations.find((r) => r.relation === relation);
    const fields = about.fields.map((f) => f.field + (f.weight < 0 ? " (lower first)" : "")).join(", ");
    at("meaning").textContent = about.unknown ? "Training has no fact of this relation: probabilities are unknown."
      : !about.calibrated ? "Validation has too few facts of this relation: probabilities are unknown."
      : `Probability that ${about.probability_of === "order" ? "the head stands above the tail" : "it is a fact"}${fields ? `; compares ${fields}` : ""}.${reason(...found.answers.map((row) => row.probability))}`;
    at("answers").replaceChildren(...found.answers.map((row) => {
      const line = make("tr"), who = make("td"), drawn = make("td"), button = make("button", row[end], { type: "button" });
      button.addEventListener("click", () => why(row[end]));
      who.append(button);
      if (row.known) who.append(make("small", ` known: ${row.known}`));
      const now = percent(row.probability), was = row.before === undefined ? now : percent(row.before);
      drawn.append(bar(0, row.probability, was === now ? now : `${now} (was ${was})`, row.before));
      line.append(make("td", String(row.rank)), who, drawn);
      return line;
    }));
  } catch (error) { at("error").textContent = error.message; }
}

async function why(other) {
  const given = at("name").value, heads = at("direction").value === "head";
  try {
    const found = await get("/api/explain", [["head", heads ? given : other], ["relation", at("relation").value], ["tail", heads ? other : given], ...changes(heads ? "head." : "tail.")]);
    const parts = [make("p", `${found.head}, ${found.relation}, ${found.tail}: filtered rank ${found.rank}, probability ${percent(found.probability)}, score ${found.score.toFixed(3)}.${reason(found.probability)}`)];
    const terms = Object.entries(found.terms);
    if (terms.length > 1) parts.push(table(["term", "value"], terms.map(([n, v]) => [n, v.toFixed(3)])));
    if (found.compared) parts.push(table(["field", "head", "tail"], found.compared.map((f) => [f.field, shown(f.head), shown(f.tail)])));
    if (found.order) parts.push(make("p", `Positions: head ${found.order.head_position.toFixed(2)} ± ${found.order.head_width.toFixed(2)}, tail ${found.order.tail_position.toFixed(2)} ± ${found.order.tail_width.toFixed(2)}.`));
    if (found.what_if) parts.push(make("p", `With the changes: filtered rank ${found.what_if.rank}, probability ${percent(found.what_if.probability)}.${reason(found.what_if.probability)}`));
    at("why").replaceChildren(...parts);
  } catch (error) { at("error").textContent = error.message; }
}

async function cells(name) {
  try {
    const found = await get("/api/cells", [["entity", name]]);
    if (at("name").value !== name) return;
    if (!found) { at("cells").replaceChildren(make("p", "Being computed.")); setTimeout(() => cells(name), 1500); return; }
    if (!found.cells.length) { at("cells").replaceChildren(make("p", "None is missing.")); return; }
    at("cells").replaceChildren(make("p", `Intervals at ${100 * found.level} %.`), table(["field", "value, by rank from the lowest"], found.cells.map((cell) => [cell.field,
      bar((cell.low_rank - 1) / cell.of, cell.high_rank / cell.of, cell.unknown ? "unknown" : `${cell.text} (rank ${cell.low_rank} to ${cell.high_rank} of ${cell.of})`)])));
  } catch (error) { at("cells").replaceChildren(make("p", error.message)); }
}

function sliders() {
  at("fields").replaceChildren(...model.fields.filter((f) => f.low !== null && f.low < f.high).map((field) => {
    const own = values.find((v) => v.field === field.field).value, box = make("div"), label = make("label");
    const input = make("input", "", { type: "range", min: field.low, max: field.high, step: "any", "aria-label": field.field });
    input.value = own ?? (field.low + field.high) / 2;
    const tell = () => {
      const now = changed.has(field.field) ? shown(changed.get(field.field)) : shown(own);
      label.textContent = `${field.field}: ${now}`; input.setAttribute("aria-valuetext", now);
    };
    input.addEventListener("input", () => { changed.set(field.field, rounded(Number(input.value))); tell(); later(); });
    tell(); box.append(label, input); return box;
  }));
}

let timer = 0, running = false, again = false;
function later() { clearTimeout(timer); timer = setTimeout(drag, 80); }
async function drag() { // one question at a time, the newest value last
  if (running) { again = true; return; }
  running = true; await answer(); running = false;
  if (again) { again = false; drag(); }
}

async function choose(name) {
  at("name").value = name; close(); changed.clear();
  try {
    values = (await get("/api/entity", [["name", name]])).values;
    sliders(); at("why").replaceChildren(make("p", "Choose a name among the answers."));
    await answer(); cells(name);
  } catch (error) { at("error").textContent = error.message; }
}

function close() { at("names").hidden = true; at("name").setAttribute("aria-expanded", "false"); at("name").removeAttribute("aria-activedescendant"); }

async function search() {
  const number = ++searched, found = await get("/api/entities", [["prefix", at("name").value], ["limit", "20"]]);
  if (number !== searched) return;
  at("names").replaceChildren(...found.entities.map((name, place) => {
    const option = make("li", name, { role: "option", id: `option-${place}`, "aria-selected": "false" });
    option.addEventListener("mousedown", (event) => { event.preventDefault(); choose(name); });
    return option;
  }));
  at("names").hidden = !found.entities.length; at("name").setAttribute("aria-expanded", String(found.entities.length > 0));
}

at("name").addEventListener("input", search);
at("name").addEventListener("blur", close);
at("name").addEventListener("keydown", (event) => {
  const options = [...at("names").children], now = options.findIndex((o) => o.getAttribute("aria-selected") === "true");
  if (event.key === "Escape") close();
  else if (event.key === "Enter") { event.preventDefault(); searched++; choose(!at("names").hidden && options.length ? options[Math.max(now, 0)].textContent : at("name").value); }
  else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && options.length) {
    event.preventDefault();
    const next = event.key === "ArrowDown" ? (now + 1) % options.length : (now <= 0 ? options.length : now) - 1;
    options.forEach((o, place) => o.setAttribute("aria-selected", String(place === next)));
    at("name").setAttribute("aria-activedescendant", options[next].id); options[next].scrollIntoView({ block: "nearest" });
  }
});
at("ask").addEventListener("submit", (event) => event.preventDefault());
at("direction").addEventListener("change", () => { at("name-label").textContent = at("direction").value === "head" ? "Head" : "Tail"; answer(); });
for (const id of ["relation", "top", "known"]) at(id).addEventListener("change", answer);
at("reset").addEventListener("click", () => { changed.clear(); sliders(); answer(); });

try {
  model = await get("/api/run");
  at("title").textContent = document.title = model.run;
  const accuracy = model.test.order_accuracy;
  at("about").textContent = `${model.model} on ${model.graph}, ${model.entities.toLocaleString("en")} entities, ${model.relations.length} ${model.relations.length === 1 ? "relation" : "relations"}${accuracy === null ? "" : `, test order accuracy ${accuracy.toFixed(4)}`}.`;
  at("relation").replaceChildren(...model.relations.map((r) => make("option", r.relation)));
  const first = (await get("/api/entities", [["limit", "1"]])).entities[0];
  if (first) await choose(first);
} catch (error) { at("error").textContent = error.message; }
