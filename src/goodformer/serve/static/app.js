// The page: sends rows to /predict, shows the answers of all models side by side, and explains a row on demand.

const PAGE = 200; // rows shown at a time
const find = (id) => document.getElementById(id);
const state = { models: [], file: null, lines: [], answers: [], order: [], sort: null, shown: PAGE, row: null };
const explained = new Map();
const OPTIONS = { "?smiles=COLUMN": "“SMILES column” under Options", "--sets": "“Conformal sets”" }; // of programs, and of the page

/** Make an element; text is never read as HTML. */
function make(tag, attributes = {}, ...children) {
  const space = ["svg", "circle", "title"].includes(tag) ? "http://www.w3.org/2000/svg" : "http://www.w3.org/1999/xhtml";
  const made = document.createElementNS(space, tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function say(text, kind = "") {
  find("message").textContent = text;
  find("message").className = kind;
}

/** A sentence about one model, with its name if there are several. */
const of = (model, sentence) => (state.models.length > 1 ? `${model}: ${sentence}` : sentence);

/** Send a request and return its JSON; the sentence of an error becomes the message. */
async function ask(path, options = {}) {
  const token = sessionStorage.getItem("token");
  const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch {
    throw new Error("the server does not answer; start it again.");
  }
  if (response.status === 401) find("access").hidden = false;
  const value = await response.json();
  if (!response.ok) throw new Error(Object.entries(OPTIONS).reduce((text, [theirs, ours]) => text.replace(theirs, ours), value.error));
  return value;
}

// Models and input -----------------------------------------------------------------------------------------------------

async function start() {
  try {
    state.models = await ask("/models");
  } catch (error) {
    return say(error.message, "bad");
  }
  find("access").hidden = true;
  say("");
  const about = (model) => Object.entries(model.classes).map(([target, names]) => `${target}: ${names.join(" or ") || "a measured value"}`).join("; ");
  find("models").replaceChildren(...state.models.map((model) =>
    make("li", { title: about(model) }, make("b", {}, model.name), ` ${model.method} `, make("span", {}, about(model)))));
  if (!state.models.some((model) => model.molecules)) {
    find("draw").hidden = true;
    find("asked").textContent = "Graphs";
    find("text").placeholder = 'One graph per line: {"edges": [[0, 1], [1, 2]]}';
  }
}

function choose(file) {
  state.file = file;
  find("chosen").hidden = !file;
  find("chosen").firstElementChild.textContent = file ? file.name : "";
  find("text").disabled = Boolean(file);
  if (!file) find("file").value = "";
}

async function predict() {
  const body = state.file ?? find("text").value;
  if (!state.file && !body.trim()) return say("Enter at least one row, or open a file.", "bad");
  const query = new URLSearchParams();
  const suffix = state.file?.name.split(".").pop().toLowerCase();
  if (suffix) query.set("format", suffix);
  if (find("column").value) query.set("smiles", find("column").value);
  if (find("sets").value) query.set("sets", find("sets").value);
  say("Predicting …");
  find("ask").setAttribute("aria-busy", "true");
  try {
    const asked = await Promise.allSettled(state.models.map(({ name }) =>
      ask(`/predict?${query}&model=${encodeURIComponent(name)}`, { method: "POST", body, headers: { "Content-Type": "text/plain" } })));
    state.answers = asked.filter(({ value }) => value).map(({ value }) => value);
    const failed = asked.map(({ reason }, place) => reason && of(state.models[place].name, reason.message)).filter(Boolean).join("\n");
    if (!state.answers.length) throw new Set(asked.map(({ reason }) => reason.message)).size > 1 ? new Error(failed) : asked[0].reason;
    const text = state.file ? await state.file.text() : body;
    state.lines = state.models.some((model) => !model.molecules) ? text.split(/\r\n|\n|\r/).filter((line) => line.trim()) : [];
    explained.clear();
    Object.assign(state, { order: [...Array(state.answers[0].rows).keys()], sort: null, shown: PAGE, row: null });
    say(failed, "bad");
    show();
    const first = state.order.find((row) => readable(row));
    if (first !== undefined) explain(first);
  } catch (error) {
    clear();
    say(error.message, "bad");
  } finally {
    find("ask").removeAttribute("aria-busy");
  }
}

/** Remove the answers to earlier rows. */
function clear() {
  Object.assign(state, { answers: [], lines: [], order: [], sort: null, row: null });
  explained.clear();
  for (const id of ["table", "why", "notes", "summary"]) find(id).replaceChildren();
  find("results").hidden = true;
}

// Table ----------------------------------------------------------------------------------------------------------------

/** The columns of the table: those that were sent, then the answers of each model; empty ones are left out. */
function columns() {
  const filled = (answer, name) => answer.columns[name].some((value) => value !== null);
  const given = state.answers[0].input.map((name) => ({ group: "", name, values: state.answers[0].columns[name] }));
  const added = state.answers.flatMap((answer) => answer.answer.filter((name) => filled(answer, name))
    .map((name) => ({ group: answer.model, name, values: answer.columns[name] })));
  return [...given, ...added];
}

const readable = (row) => state.answers.some((answer) => (answer.molecules ? answer.molecules[row] : state.lines[row]) !== null);
const isShare = (name) => /(^|_)p_/.test(name) || name === "domain_score";

function cell({ group, name, values }, row) {
  const value = values[row];
  const made = make("td", { "data-column": name, "data-model": group, "data-value": JSON.stringify(value) });
  if (value === null) return made;
  if (group && name.endsWith("outside")) {
    made.append(make("span", { class: `tag ${value ? "bad" : "good"}` }, value ? "outside" : "inside"));
  } else if (typeof value === "number") {
    made.className = "number";
    made.append(Number.isInteger(value) && !isShare(name) ? String(value) : value.toFixed(3));
    if (group && isShare(name)) {
      const bar = make("span", { class: "bar" }, make("i"));
      bar.firstChild.style.width = `${100 * Math.min(Math.max(value, 0), 1)}%`;
      made.append(bar);
    }
  } else {
    const kind = name.endsWith("problem") ? "problem" : name.endsWith("predicted") ? "predicted" : "long";
    const text = typeof value === "object" ? JSON.stringify(value) : String(value);
    made.append(make("span", { class: group ? kind : "long", title: text }, text));
  }
  return made;
}

function show() {
  const shown = columns();
  const groups = [];
  for (const { group } of shown) {
    if (groups.at(-1)?.group === group) groups.at(-1).span += 1;
    else groups.push({ group, span: 1 });
  }
  const heads = shown.map((column, place) => {
    const sorted = state.sort?.place === place ? (state.sort.down ? "descending" : "ascending") : "none";
    const press = make("button", { type: "button" }, column.name);
    press.addEventListener("click", () => sort(place));
    return make("th", { scope: "col", "aria-sort": sorted, class: column.values.some((value) => typeof value === "number") ? "number" : null }, press);
  });
  const above = make("tr", {}, make("td"), ...groups.map(({ group, span }) => make("th", { scope: "colgroup", colspan: span, class: "group" }, group)));
  const head = make("thead", {}, ...(state.models.length > 1 ? [above] : []), make("tr", {}, make("th", { scope: "col" }, "row"), ...heads));
  const body = make("tbody", {}, ...state.order.slice(0, state.shown).map((row) => line(shown, row)));
  find("table").replaceChildren(head, body);
  find("more").hidden = state.order.length <= state.shown;
  const count = (number, what) => `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;
  const outside = state.answers.filter((answer) => answer.outside !== null)
    .map((answer) => `${answer.outside} outside the training domain${state.models.length > 1 ? ` of ${answer.model}` : ""}`);
  const bad = state.answers[0].unreadable;
  find("summary").textContent = [count(state.answers[0].rows, "row"), ...(bad ? [`${bad} cannot be read`] : []), ...outside].join("; ");
  const notes = new Set(state.answers.flatMap((answer) => answer.notes));
  find("notes").replaceChildren(...[...notes].map((note) => make("li", {}, note)));
  find("results").hidden = false;
  mark();
}

function line(shown, row) {
  const press = make("button", { type: "button", class: "row", "aria-label": `Explain row ${row + 1}`, disabled: readable(row) ? null : "" }, String(row + 1));
  const made = make("tr", { "data-row": row }, make("td", {}, press), ...shown.map((column) => cell(column, row)));
  if (readable(row)) {
    let waiting;
    made.addEventListener("mouseenter", () => { waiting = setTimeout(() => explain(row), 120); });
    made.addEventListener("mouseleave", () => clearTimeout(waiting));
    made.addEventListener("click", () => explain(row));
    press.addEventListener("focus", () => explain(row));
  }
  return made;
}

function mark() {
  for (const made of find("table").querySelectorAll("tr[data-row]")) made.classList.toggle("current", Number(made.dataset.row) === state.row);
}

/** Sort by a column: upwards, then downwards; missing values come last. */
function sort(place) {
  const down = state.sort?.place === place && !state.sort.down;
  const { values } = columns()[place];
  const numbers = values.every((value) => value === null || !Number.isNaN(Number(value)));
  const compare = (one, other) => (numbers ? Number(one) - Number(other) : String(one).localeCompare(String(other), "en"));
  state.order.sort((one, other) => {
    const [a, b] = [values[one], values[other]];
    if (a === null || b === null) return (a === null) - (b === null) || one - other;
    return (down ? -compare(a, b) : compare(a, b)) || one - other;
  });
  state.sort = { place, down };
  show();
  find("table").querySelectorAll("thead tr:last-child th button")[place].focus();
}

/** Save all rows in their original order; with several models, each answer column is named after its model. */
function download() {
  const several = state.models.length > 1;
  const all = columns();
  const quoted = (value) => {
    const text = value === null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = [all.map(({ group, name }) => quoted(several && group ? `${group}_${name}` : name))];
  for (let row = 0; row < state.order.length; row += 1) lines.push(all.map(({ values }) => quoted(values[row])));
  const address = URL.createObjectURL(new Blob([lines.map((fields) => `${fields.join(",")}\r\n`).join("")], { type: "text/csv" }));
  make("a", { href: address, download: "answers.csv" }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

// Explanation ----------------------------------------------------------------------------------------------------------

async function explain(row) {
  if (state.row === row) return;
  state.row = row;
  mark();
  find("why").setAttribute("aria-busy", "true");
  if (!explained.has(row)) {
    explained.set(row, Promise.all(state.answers.map((answer) =>
      reason(answer, row).catch((error) => ({ model: answer.model, error: error.message })))));
  }
  const found = await explained.get(row);
  if (found.some((answer) => answer?.error)) explained.delete(row);
  if (state.row !== row) return;
  picture(row, found.filter(Boolean));
  find("why").removeAttribute("aria-busy");
}

/** Ask one model to explain a row; null if it cannot read the row. */
async function reason(answer, row) {
  if (answer.molecules && answer.molecules[row] === null) return null;
  const given = answer.molecules ? { smiles: [answer.molecules[row]] } : { graphs: [JSON.parse(state.lines[row])] };
  return ask(`/explain?model=${encodeURIComponent(answer.model)}`, {
    method: "POST", body: JSON.stringify(given), headers: { "Content-Type": "application/json" },
  });
}

function picture(row, found) {
  const name = state.answers[0].columns[state.answers[0].input.find((one) => /^(name|id|title)$/i.test(one))]?.[row];
  const title = make("h2", {}, `Row ${row + 1}${name ? ` · ${name}` : ""}`);
  find("why").replaceChildren(title, ...found.map((answer) => figure(answer)));
}

const SOURCES = { own: "scored by the method itself", "post-hoc": "scored post hoc" };
const DRAWN = new Set(["row", "graph", "smiles", "label", "predicted", "probabilities", "fidelity", "num_nodes", "edges", "scores", "k",
  "subgraph_nodes", "node_scores", "node_shades", "elements", "places", "picture", "marked", "node_names", "edge_names"]);

/** One model's explanation: the formula, whose atoms answer to the pointer, and the score of every atom. */
function figure(answer) {
  if (answer.error) return make("p", { class: "bad" }, of(answer.model, answer.error));
  const graph = answer.graphs[0];
  if (!graph) return make("p", { class: "quiet" }, `${answer.model}: the row cannot be read.`);
  const chosen = new Set(graph.marked ? graph.subgraph_nodes : []);
  const best = `the ${graph.marked ? "marked" : `best ${graph.k}`} ${graph.elements ? "bonds" : "edges"}`;
  const label = (atom) => (graph.elements ? `atom ${atom}, ${graph.elements[atom]}` : `node ${atom}`);
  const number = (value) => (value === null ? "no score" : value.toFixed(3));
  const said = make("p", { class: "said" }, graph.elements ? "Point at an atom to see its score." : "");
  const rows = [];
  const spots = [];
  const point = (atom) => {
    said.textContent = `${label(atom)}: ${number(graph.node_scores[atom])}`;
    [...rows, ...spots].forEach((one) => one.classList.toggle("pointed", Number(one.dataset.atom) === atom));
  };
  const pointed = (made, atom) => {
    made.addEventListener("mouseenter", () => point(atom));
    made.addEventListener("focus", () => point(atom));
    return made;
  };
  const parts = [make("figcaption", {}, make("b", {}, answer.model), ` ${SOURCES[answer.explanation] ?? answer.explanation}`)];
  if (graph.picture) {
    const image = make("img", { alt: graph.marked ? `Formula with the ${graph.k} highest-scoring bonds in red` : "Formula without marks", width: 420, height: 320,
      src: `data:image/svg+xml;utf8,${encodeURIComponent(graph.picture.replace(/^<\?xml[^>]*\?>/, ""))}` });
    const over = make("svg", { viewBox: "0 0 420 320", "aria-hidden": "true" });
    graph.places.forEach(([x, y], atom) => {
      spots.push(pointed(make("circle", { cx: x, cy: y, r: 13, "data-atom": atom }), atom));
    });
    over.append(...spots);
    const key = graph.marked
      ? [make("i", { class: "strong" }), `best ${graph.k} bonds `, make("i", { class: "pale" }), "other bonds, by score"]
      : ["Nothing is marked: no single part decides."];
    parts.push(make("div", { class: "formula" }, image, over), said, make("p", { class: "key quiet" }, ...key));
  }
  if (graph.fidelity && graph.fidelity.removed !== null) {
    const { whole, removed, kept } = graph.fidelity;
    const classes = state.models.find((model) => model.name === answer.model)?.classes ?? {};
    const measured = Object.values(classes).every((names) => !names.length);
    parts.push(make("p", { class: "quiet" }, measured
      ? `The value changes by ${number(-removed)} training standard deviations without ${best}, by ${number(-kept)} with them alone.`
      : `Probability of the predicted class: ${number(whole)}; without ${best} ${number(removed)}; with them alone ${number(kept)}.`));
  }
  for (const [key, value] of Object.entries(graph)) { // whatever else the answer says, such as a verdict
    if (!DRAWN.has(key) && value !== null && typeof value !== "object") parts.push(make("p", { class: "fact" }, make("b", {}, key.replaceAll("_", " ")), ` ${value}`));
  }
  const order = [...graph.node_scores.keys()].sort((one, other) => (graph.node_scores[other] ?? -Infinity) - (graph.node_scores[one] ?? -Infinity));
  for (const atom of order) {
    const bar = make("span", { class: `bar ${chosen.has(atom) ? "strong" : ""}` }, make("i"));
    bar.firstChild.style.width = `${100 * (graph.node_shades[atom] ?? 0)}%`;
    rows.push(pointed(make("tr", { "data-atom": atom, tabindex: 0 }, make("td", {}, String(atom)),
      ...(graph.elements ? [make("td", {}, graph.elements[atom])] : []),
      make("td", { class: "number", "data-value": JSON.stringify(graph.node_scores[atom]) }, number(graph.node_scores[atom]), bar)), atom));
  }
  const heads = [graph.elements ? "atom" : "node", ...(graph.elements ? ["element"] : []), "score"];
  parts.push(make("details", state.models.length > 1 ? {} : { open: "" }, make("summary", {}, graph.elements ? "Atom contributions" : "Node contributions"),
    make("div", { class: "atoms" }, make("table", {}, make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { scope: "col", class: head === "score" ? "number" : null }, head)))),
      make("tbody", {}, ...rows)))));
  return make("figure", { "data-model": answer.model }, ...parts);
}

// Drawing --------------------------------------------------------------------------------------------------------------

let editor = null;

async function draw() {
  const open = find("drawing").hidden;
  find("drawing").hidden = !open;
  find("draw").setAttribute("aria-expanded", String(open));
  if (!open || editor) return;
  const { CanvasEditor } = await import("/static/openchemlib.js");
  editor = new CanvasEditor(find("editor"), { initialMode: "molecule" });
  find("take").disabled = false;
}

function take() {
  const smiles = editor?.getMolecule().toIsomericSmiles();
  if (!smiles) return say("Draw a molecule first.", "bad");
  choose(null);
  const before = find("text").value.trimEnd();
  find("text").value = `${before ? `${before}\n` : ""}${smiles}\n`;
  say("");
  predict();
}

// Events ---------------------------------------------------------------------------------------------------------------

find("ask").addEventListener("submit", (event) => { event.preventDefault(); predict(); });
find("text").addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) predict(); });
find("file").addEventListener("change", () => { if (find("file").files[0]) { choose(find("file").files[0]); predict(); } });
find("chosen").lastElementChild.addEventListener("click", () => { choose(null); find("text").focus(); });
find("access").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", find("token").value.trim());
  start();
});
find("draw").addEventListener("click", draw);
find("take").addEventListener("click", take);
find("download").addEventListener("click", download);
find("more").addEventListener("click", () => { state.shown += PAGE; show(); });
document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", (event) => {
  event.preventDefault();
  if (event.dataTransfer.files[0]) { choose(event.dataTransfer.files[0]); predict(); }
});
start();
