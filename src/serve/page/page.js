// The page of `dlock serve`. It shows the lines that /events sends, and the document /action.json about one action.
// All text is set as text and never as HTML, because other clients choose the names.
"use strict";

// Rows that are shown at once. More rows would make each update slower than a user can notice.
const PAGE = 200;
// Minimum age of stale data, as on the screen of `dlock status --watch`.
const MIN_STALE_MS = 2000;
// Time after which a connection without events is replaced. The server sends at least a comment every 15 s.
const SILENCE_MS = 45000;
const RETRY_MS = 3000;
// Maximum time of a request for the details of a lock. A browser uses at most six connections to a server, and each tab
// keeps one of them for the events, so a request can wait for a connection for as long as the other tabs are open.
const DETAIL_TIMEOUT_MS = 5000;
// Time for which a button says that its command was copied.
const COPIED_MS = 2000;
// Time after which a page in the background stops asking the server.
const HIDDEN_MS = 30000;

const element = (id) => document.getElementById(id);

const page = {
  lines: new Map(),       // the line of each action
  names: [],              // the names in natural order
  head: null,             // the facts of the latest event
  received: 0,            // when the lines of the latest event were current, by performance.now()
  age: 0,                 // the age of the lines of the next event with all lines, in milliseconds
  lastSign: 0,            // when the latest event arrived, or the connection was started
  failure: "",            // why the data is not current
  problems: 0,            // number of actions that need attention
  limit: PAGE,            // maximum number of rows
  rows: new Map(),        // the visible rows
  problemNames: "",       // the names of the actions that the page describes above the list
  articles: new Map(),    // the descriptions of these actions
  updates: 0,             // number of events with lines
  // The details of the selected lock: the latest document, when its records were current, when the latest request was
  // sent, and why it failed. The times are those of performance.now().
  detail: null,           // { document, current, asked, failure }
  request: null,          // the request for the details that has not ended
  selected: undefined,    // the lock whose details are shown, null for the list, undefined before the start
};

// ---- small helpers

function create(tag, text, className) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// Makes `nodes` the children of `parent`, in this order. Nodes that are children already keep their focus, and they keep
// their selection unless they move.
function arrange(parent, nodes) {
  const focused = document.activeElement;
  const kept = new Set(nodes);
  for (const child of Array.from(parent.children)) if (!kept.has(child)) child.remove();
  let next = parent.firstElementChild;
  for (const node of nodes) {
    if (next && next !== node && next.nextElementSibling === node) {
      // Only the node that moves towards the end is taken out.
      next.remove();
      next = node;
    }
    if (node === next) next = node.nextElementSibling; else parent.insertBefore(node, next);
  }
  // A node loses the focus when it moves.
  if (focused !== document.activeElement && parent.contains(focused)) focused.focus({ preventScroll: true });
}

// Formats a duration like the tables of dlock: at most two units.
function age(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const units = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => seconds >= size);
  if (first < 0) return "0s";
  const [unit, size] = units[first];
  const next = units[first + 1];
  const rest = next ? Math.floor((seconds % size) / next[1]) : 0;
  return `${Math.floor(seconds / size)}${unit}` + (rest ? ` ${rest}${next[0]}` : "");
}

function short(ms) {
  return ms < 1000 ? `${ms}ms` : age(ms);
}

const sinceEvent = () => performance.now() - page.received;
const serverNow = () => page.head.server_time_ms + sinceEvent();
const timeOf = (ms) => new Date(ms).toISOString().slice(11, 19) + " UTC";
const staleAfter = () => Math.max(page.head ? 2 * page.head.interval_ms : 0, MIN_STALE_MS);
const isStale = () => page.failure !== "" || !page.head || sinceEvent() > staleAfter();

// The name of the action that the address selects, or null.
function selectedName() {
  const match = /^#\/lock\/(.+)$/.exec(location.hash);
  if (!match) return null;
  try { return decodeURIComponent(match[1]); } catch { return null; }
}

const linkTo = (name) => "#/lock/" + encodeURIComponent(name);

// ---- events

let source = null;
let hiddenTimer = 0;
let retryTimer = 0;

function connect() {
  disconnect();
  source = new EventSource("events");
  source.addEventListener("age", (event) => {
    page.lastSign = performance.now();
    page.age = JSON.parse(event.data).age_ms;
  });
  source.addEventListener("all", (event) => receive(event, true));
  source.addEventListener("changes", (event) => receive(event, false));
  source.addEventListener("failure", (event) => {
    page.lastSign = performance.now();
    page.failure = JSON.parse(event.data).reason;
    tick();
  });
  source.onerror = () => {
    // The browser reconnects after a lost connection, but not after a response with an error.
    const isRefused = source.readyState === EventSource.CLOSED;
    page.failure = isRefused ? "dlock serve, or a proxy before it, refuses the connection" : "dlock serve does not respond";
    if (isRefused) retry();
    tick();
  };
  page.lastSign = performance.now();
}

function disconnect() {
  clearTimeout(retryTimer);
  if (source) source.close();
  source = null;
}

function retry() {
  clearTimeout(retryTimer);
  retryTimer = setTimeout(connect, RETRY_MS);
}

function receive(event, isAll) {
  const start = performance.now();
  const data = JSON.parse(event.data);
  page.lastSign = start;
  // The server may have read all lines earlier, for another viewer.
  page.received = isAll ? start - page.age : start;
  page.failure = "";
  page.head = data;
  if (isAll) {
    page.lines = new Map();
    page.names = data.actions.map((line) => line.action);
  }
  for (const line of data.actions) {
    line.text = `${line.action}\n${line.holder || ""}\n${line.host || ""}`.toLowerCase();
    page.lines.set(line.action, line);
  }
  // A new action follows the given one, which comes earlier in this list. A null is the start, which has the index 0.
  for (const [name, previous] of data.added) page.names.splice(page.names.indexOf(previous) + 1, 0, name);
  for (const name of data.removed) {
    page.lines.delete(name);
    page.names.splice(page.names.indexOf(name), 1);
  }
  data.actions = null;
  render();
  loadDetail();
  page.updates += 1;
  measure("update", start);
  // The task runs after the next frame is drawn.
  requestAnimationFrame(() => setTimeout(() => measure("frame", start)));
}

// Records the time since `start`, for tests and for the developer tools of the browser.
function measure(name, start) {
  performance.clearMeasures(name);
  performance.measure(name, { start, end: performance.now() });
}

// ---- the list

const STATES = [
  ["all", "all", () => true],
  ["attention", "problems and long waits", (line) => Boolean(line.attention)],
  ["held", "held", (line) => line.since !== undefined],
  ["waiters", "with waiters", (line) => line.waiters > 0],
  ["paused", "paused", (line) => line.state === "paused"],
  ["free", "free", (line) => line.state === "free"],
];

const ORDERS = {
  name: null,
  // Problems that an operator can end, problems that end alone, locks with waiters, others.
  urgent: (line) => line.severity === 0 ? (line.needs_no_command ? -1e15 : -2e15) + (line.waits_since ?? 1e14)
    : line.waiters ? line.waits_since : 1e15 + line.severity,
  held: (line) => line.since ?? 1e15,
  waiters: (line) => -(line.waiters || 0),
  ended: (line) => -(line.last ? line.last.ended : 0),
};

// Returns the lines that match the filter, in the chosen order.
function visibleLines() {
  const words = element("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const [, , matches] = STATES.find(([value]) => value === element("state").value) || STATES[0];
  const found = [];
  for (const name of page.names) {
    const line = page.lines.get(name);
    if (matches(line) && words.every((word) => line.text.includes(word))) found.push(line);
  }
  const key = ORDERS[element("order").value];
  // The sort is stable, so lines with equal keys stay in natural order.
  if (key) found.sort((one, other) => key(one) - key(other));
  return found;
}

function render() {
  if (!page.head) return;
  renderStates();
  renderProblems();
  const notice = page.head.read_only
    ? "The database server is read-only, probably a replica, and its data may be old."
    : page.head.clock_difference || "";
  element("notice").hidden = !notice;
  setText(element("notice"), notice);
  if (selectedName() === null) renderRows();
  tick();
}

function renderStates() {
  const counts = STATES.map(() => 0);
  for (const line of page.lines.values()) {
    STATES.forEach(([, , matches], index) => { if (matches(line)) counts[index] += 1; });
  }
  const select = element("state");
  STATES.forEach(([value, label], index) => {
    const option = select.options[index] || select.appendChild(create("option"));
    option.value = value;
    setText(option, `${label} (${counts[index]})`);
  });
  page.problems = counts[1];
}

function renderRows() {
  const lines = visibleLines();
  const shown = lines.slice(0, page.limit);
  const body = element("rows");
  const rows = new Map();
  for (const line of shown) {
    const row = page.rows.get(line.action) || createRow(line.action);
    if (row.line !== line) fillRow(row, line);
    rows.set(line.action, row);
  }
  const hadFocus = body.contains(document.activeElement);
  arrange(body, Array.from(rows.values(), ({ node }) => node));
  if (hadFocus && !body.contains(document.activeElement)) focusList();
  page.rows = rows;
  const total = page.names.length;
  const summary = total === 0
    ? "No lock has been used yet."
    : lines.length === total ? `${total} locks` : `${lines.length} of ${total} locks`;
  setText(element("summary"), summary + (lines.length > shown.length ? `, the first ${shown.length} are shown` : ""));
  const more = element("more");
  more.hidden = lines.length <= shown.length;
  setText(more, `Show ${Math.min(PAGE, lines.length - shown.length)} more`);
}

// Creates a row or a cell. It has a role, because the style for phones would otherwise hide that it belongs to a table.
function createPart(tag, role) {
  const node = create(tag);
  node.setAttribute("role", role);
  return node;
}

function createRow(name) {
  const node = createPart("tr", "row");
  const cells = ["", "", "holder", "held", "expires in", "waiters", "last run"].map((label, column) => {
    const cell = node.appendChild(column === 0 ? createPart("th", "rowheader") : createPart("td", "cell"));
    if (label) cell.dataset.label = label;
    return cell;
  });
  cells[0].scope = "row";
  const link = cells[0].appendChild(create("a", name));
  link.href = linkTo(name);
  const badge = cells[1].appendChild(create("span", "", "badge"));
  return { node, cells, link, badge, line: null };
}

function fillRow(row, line) {
  row.line = line;
  row.node.dataset.action = line.action;
  row.badge.className = `badge s${line.severity}`;
  setText(row.badge, stateText(line));
  setText(row.cells[2], line.holder === undefined ? "" : line.holder);
  setText(row.cells[5], line.waiters ? String(line.waiters) : "");
  row.cells[6].className = line.last && !line.last.is_good ? "bad-text" : "";
}

// The diagnosis says more than the state if there is a problem.
function stateText(line) {
  const texts = {
    "not-renewing": "not renewed", "gone": "holder gone", "clock-set-back": "clock set back",
    "deadlocked": "deadlock",
    "min-hold": "held (min-hold)", "odd": "odd row",
  };
  return texts[line.diagnosis] || line.state;
}

// Updates everything that depends on the present time.
function tick() {
  const stale = isStale();
  document.body.classList.toggle("is-stale", stale && page.head !== null);
  const warning = element("stale");
  if (page.head) {
    setText(element("age"), `data of ${timeOf(page.head.server_time_ms)}, ${age(sinceEvent())} old`);
  }
  const isShown = stale && (page.head !== null || page.failure !== "");
  const why = page.failure || "no response";
  const state = page.head ? `; this is the state of ${timeOf(page.head.server_time_ms)}` : "";
  setText(warning, isShown ? `Stale: ${why}${state}` : "");
  warning.hidden = !isShown;
  tickDetail();
  if (!page.head) return;
  const now = serverNow();
  for (const { cells, line } of page.rows.values()) {
    setText(cells[3], line.since === undefined ? "" : age(now - line.since));
    // The holder may have renewed a lease that had not expired when the data was read.
    setText(cells[4], line.expires === undefined ? ""
      : line.expires < page.head.server_time_ms && !stale ? `${age(now - line.expires)} ago`
      : line.expires < now || stale ? "unknown" : age(line.expires - now));
    setText(cells[6], line.last ? `${line.last.result}, ${age(now - line.last.ended)} ago` : "");
  }
  const problems = page.problems ? `(${page.problems}) ` : "";
  const name = selectedName();
  const title = problems + (name === null ? "dlock" : `${name} - dlock`);
  if (document.title !== title) document.title = title;
}

// ---- problems and advice

function renderProblems() {
  const { problems } = page.head;
  const list = element("problem-list");
  const articles = new Map();
  for (const problem of problems) {
    const article = page.articles.get(problem.action) || createArticle(problem.action);
    articles.set(problem.action, article);
    const line = page.lines.get(problem.action);
    article.badge.className = `badge s${problem.severity}`;
    setText(article.badge, line ? stateText(line) : problem.state);
    fillAdvice(article.node, problem, article.link);
  }
  page.articles = articles;
  const names = Array.from(articles.keys()).join("\n");
  if (names !== page.problemNames) {
    page.problemNames = names;
    const hadFocus = list.contains(document.activeElement);
    arrange(list, Array.from(articles.values(), ({ node }) => node));
    if (hadFocus && !list.contains(document.activeElement)) focusList();
    setText(element("announcement"), names ? `Problems and long waits: ${names.replaceAll("\n", ", ")}` : "No problems and no long waits.");
  }
  element("problems").hidden = problems.length === 0;
  // The server describes only the most urgent ones.
  const others = page.problems - problems.length;
  element("more-problems").hidden = others <= 0;
  setText(element("more-problems"), others > 0 ? `and ${others} more` : "");
}

// Shows only the locks with a problem or a long wait in the list.
function showProblems() {
  element("state").value = "attention";
  filterChanged();
  element("locks").focus();
}

function createArticle(name) {
  const node = create("article");
  const title = node.appendChild(create("h3"));
  const link = title.appendChild(create("a", name));
  link.href = linkTo(name);
  title.append(" ");
  const badge = title.appendChild(create("span", "", "badge"));
  return { node, link, badge };
}

// Sets the focus to the list after the node with the focus has disappeared.
function focusList() {
  element("locks").focus({ preventScroll: true });
}

// Fills `node` with the diagnosis, the advice and the commands of `document`. Nodes stay as long as possible, so that an
// update does not end a selection. The focus moves to `fallback` if it was on a command that no longer exists.
function fillAdvice(node, document, fallback) {
  if (!node.parts) {
    const [diagnosis, advice] = [create("p", "", "diagnosis"), create("p", "")];
    const commands = create("ul", undefined, "commands");
    node.append(diagnosis, advice, commands);
    node.parts = { diagnosis, advice, commands };
  }
  const { diagnosis, advice, commands } = node.parts;
  node.className = `problem s${document.severity}`;
  setText(diagnosis, document.diagnosis);
  setText(advice, document.advice);
  const hadFocus = commands.contains(window.document.activeElement);
  const present = new Map(Array.from(commands.children, (item) => [item.dataset.line, item]));
  arrange(commands, document.commands.map(({ purpose, line }) => {
    const item = present.get(line) || createCommand(line);
    setText(item.firstElementChild, purpose);
    return item;
  }));
  if (hadFocus && !commands.contains(window.document.activeElement)) fallback.focus({ preventScroll: true });
}

function createCommand(line) {
  const item = create("li");
  item.dataset.line = line;
  item.append(create("span"));
  const part = item.appendChild(create("span", undefined, "line"));
  const code = part.appendChild(create("code", line));
  const button = part.appendChild(create("button", "Copy"));
  button.type = "button";
  button.setAttribute("aria-label", `Copy: ${line}`);
  button.onclick = () => copy(code, button);
  return item;
}

async function copy(code, button) {
  try {
    await navigator.clipboard.writeText(code.textContent);
    setText(button, "Copied");
  } catch {
    // The clipboard is only available on https and on this machine. The user can press the key for copying.
    getSelection().selectAllChildren(code);
    setText(button, "Selected");
  }
  // The label of the button hides its text from screen readers.
  const text = `${button.textContent}: ${code.textContent}`;
  setText(element("announcement"), text);
  clearTimeout(button.timer);
  button.timer = setTimeout(() => {
    setText(button, "Copy");
    // The same text is announced again only if it was absent.
    if (element("announcement").textContent === text) setText(element("announcement"), "");
  }, COPIED_MS);
}

// ---- one action

async function loadDetail() {
  const name = selectedName();
  // The address may have changed, and its event comes later. A page in the background is not connected.
  if (name === null || !page.detail || !source || page.request) return;
  const request = page.request = {};
  const sent = page.detail.asked = performance.now();
  let document = null;
  let failure = "";
  try {
    const signal = AbortSignal.timeout(DETAIL_TIMEOUT_MS);
    const response = await fetch("action.json?name=" + encodeURIComponent(name), { signal });
    const text = await response.text();
    if (response.ok) document = JSON.parse(text); else failure = text.trim();
  } catch {
    failure = "dlock serve does not respond";
  }
  // The user has selected another lock since.
  if (page.request !== request) return;
  page.request = null;
  page.detail.failure = failure;
  if (document) {
    page.detail.document = document;
    page.detail.current = sent - document.age_ms;
    renderDetail(document);
  }
  tickDetail();
}

// Updates everything in the details that depends on the present time. Shows why they are missing or not current.
function tickDetail() {
  const { detail } = page;
  if (!detail) return;
  const passed = detail.document ? performance.now() - detail.current : 0;
  // While the page connects, the interval of the server is unknown.
  const isConnecting = !page.head && page.failure === "";
  const isShown = detail.failure !== "" || (!isConnecting && passed > staleAfter());
  const why = detail.failure ? `${detail.failure}; the` : "The";
  const text = detail.document ? `${why} facts below are not current` : detail.failure;
  // Screen readers announce the first part, which does not change each second.
  const [first, second] = element("detail-error").children;
  element("detail-error").hidden = !isShown;
  setText(first, isShown ? text : "");
  setText(second, isShown && detail.document ? `: they are ${age(passed)} old` : "");
  element("detail-body").classList.toggle("is-old", isShown);
  if (detail.document) fillTimes(detail.document, passed);
}

function renderDetail(document) {
  const { lock } = document;
  const line = page.lines.get(lock.action);
  element("detail-body").hidden = false;
  const severity = line ? line.severity : 3;
  element("name-state").className = `badge s${severity}`;
  setText(element("name-state"), line ? stateText(line) : lock.state);
  fillAdvice(element("diagnosis"), {
    severity, diagnosis: lock.diagnosis_text, advice: document.advice, commands: document.commands,
  }, element("name"));
}

// Fills the facts and the tables. The records of `document` were current `passed` milliseconds ago.
function fillTimes({ lock, runs }, passed) {
  fillFacts(lock, passed);
  fillTable("queue", lock.waiters.map((waiter) => [
    String(waiter.position), waiter.holder, age(waiter.waited_ms + passed),
    waiter.alive === null ? "unknown" : waiter.alive ? "alive" : "gone", waiter.host, waiter.user, waiter.note,
  ]), "No contender waits.");
  const longest = Math.max(1, ...runs.map((run) => (run.waited_ms || 0) + (run.is_run ? run.held_ms : 0)));
  fillTable("runs", runs.map((run) => [
    `${age(run.ended_ago_ms + passed)} ago`, run.result, run.holder, run.waited_ms === null ? "" : short(run.waited_ms),
    run.is_run ? short(run.held_ms) : "", run.is_run ? track(run, longest) : "",
  ]), "No runs are recorded.");
}

function fillFacts(lock, passed) {
  const facts = [["state", lock.state], ["token", String(lock.token)]];
  if (lock.holders.length > 1) {
    facts.push(...lock.holders.map((it) => [
      `slot ${it.slot}`,
      `${it.holder} on ${it.host}, ${age(it.held_ms + passed)}, ${expiry(it.expires_in_ms, passed)}, token ${it.token}`,
    ]));
  } else if (lock.holder !== null) {
    facts.push(
      ["holder", lock.holder], ["process", `${lock.pid} on ${lock.host}`], ["user", lock.user], ["pod", lock.pod],
      ["namespace", lock.namespace], ["command", lock.command], ["note", lock.note],
      ["since", `${lock.acquired_at}, ${age(lock.held_ms + passed)} ago`],
      ["renewed", lock.renewals ? `${lock.renewals} times, ${age(lock.renewed_ago_ms + passed)} ago` : "not yet"],
      ["lease", `${short(lock.ttl_ms)}, ${expiry(lock.expires_in_ms, passed)}`],
    );
  }
  facts.push(["paused until", lock.paused_until], ["operator", lock.operator], ["reason", lock.reason]);
  const list = element("facts");
  const present = new Map(Array.from(list.querySelectorAll("dt"), (name) => [name.textContent, name]));
  arrange(list, facts.filter(([, value]) => value).flatMap(([name, value]) => {
    const found = present.get(name);
    const nodes = found ? [found, found.nextElementSibling] : [create("dt", name), create("dd")];
    setText(nodes[1], value);
    return nodes;
  }));
}

// The end of a lease that expired or was to expire in `left` milliseconds, `passed` milliseconds ago. The holder may have
// renewed it since.
function expiry(left, passed) {
  const now = left - passed;
  return left < 0 ? `expired ${age(-now)} ago` : now < 0 ? "expiry unknown" : `expires in ${age(now)}`;
}

// The bar of one run: its waiting time, and then its running time.
function track(run, longest) {
  const track = create("div", undefined, "track");
  const bar = (ms, kind) => {
    const node = track.appendChild(create("span", undefined, `bar ${kind}`));
    node.style.width = `${100 * ms / longest}%`;
  };
  if (run.waited_ms) bar(run.waited_ms, "wait");
  bar(run.held_ms, run.is_good ? "good" : "bad");
  track.title = `waited ${run.waited_ms === null ? "an unknown time" : short(run.waited_ms)}, ran ${short(run.held_ms)}`;
  return track;
}

// Fills the table with `rows`, lists of texts and nodes. Only cells that differ change.
function fillTable(id, rows, empty) {
  const labels = Array.from(element(id).tHead.rows[0].cells, (cell) => cell.textContent.toLowerCase());
  const body = element(id).tBodies[0];
  if ((rows.length === 0) !== Boolean(body.querySelector(".empty"))) body.replaceChildren();
  if (rows.length === 0 && !body.firstChild) {
    const cell = body.appendChild(createPart("tr", "row")).appendChild(createPart("td", "cell"));
    setText(cell, empty);
    cell.className = "empty";
    cell.colSpan = labels.length;
  }
  if (rows.length === 0) return;
  while (body.rows.length > rows.length) body.lastElementChild.remove();
  rows.forEach((cells, index) => {
    const row = body.rows[index] || body.appendChild(createPart("tr", "row"));
    cells.forEach((cell, column) => fillCell(row.cells[column] || row.appendChild(createPart("td", "cell")), cell, column > 0 ? labels[column] : ""));
  });
}

function fillCell(node, content, label) {
  if (label) node.dataset.label = label;
  if (!(content instanceof Node)) {
    node.className = "";
    // A timeline has no text.
    if (node.firstElementChild) node.replaceChildren();
    setText(node, content);
  } else if (!node.firstChild?.isEqualNode(content)) {
    node.className = "timeline";
    node.replaceChildren(content);
  }
}

// ---- start

// Shows the lock that the address selects, or the list.
function navigate() {
  const name = selectedName();
  if (name === page.selected) return;
  const left = page.selected;
  page.selected = name;
  element("overview").hidden = name !== null;
  element("detail").hidden = name === null;
  page.request = null;
  page.detail = name === null ? null : { document: null, current: 0, asked: 0, failure: "" };
  if (name !== null) {
    setText(element("name-text"), name);
    setText(element("name-state"), "");
    element("detail-body").hidden = true;
    tickDetail();
    element("name").focus();
    loadDetail();
  }
  render();
  // The focus returns to the place that it had before the user opened the lock.
  if (name === null && left !== undefined) (page.rows.get(left)?.link || element("locks")).focus();
}

function showList() {
  location.hash = "#/";
  // The browser sends the event later. The list must be visible before another element gets the focus.
  navigate();
}

function filterChanged() {
  page.limit = PAGE;
  render();
}

element("search").addEventListener("input", filterChanged);
element("state").addEventListener("change", filterChanged);
element("order").addEventListener("change", filterChanged);
element("filter").addEventListener("submit", (event) => event.preventDefault());
element("more-problems").addEventListener("click", showProblems);
element("more").addEventListener("click", () => {
  page.limit += PAGE;
  render();
});
document.addEventListener("keydown", (event) => {
  const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    if (selectedName() !== null) showList();
    element("search").focus();
  } else if (event.key === "Escape" && selectedName() !== null) {
    showList();
  }
});
document.addEventListener("visibilitychange", () => {
  clearTimeout(hiddenTimer);
  if (document.hidden) hiddenTimer = setTimeout(disconnect, HIDDEN_MS);
  else if (!source) connect();
});
window.addEventListener("hashchange", navigate);
setInterval(() => {
  if (source && performance.now() - page.lastSign > Math.max(SILENCE_MS, page.head ? 3 * page.head.interval_ms : 0)) connect();
  if (page.detail?.failure && performance.now() - page.detail.asked > RETRY_MS) loadDetail();
  tick();
}, 1000);
// A tab that is opened in the background connects when the user looks at it.
if (!document.hidden) connect();
navigate();
