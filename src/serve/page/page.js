// The page of `dlock serve`. In each interval of the server, it asks for /overview.json, with a line for each lock, and for
// /action.json about the selected lock.
// All text is set as text and never as HTML, because other clients choose the names.
"use strict";

// Rows that are shown at once. More rows would make each update slower than a user can notice.
const PAGE = 200;
// Minimum age of stale data, as on the screen of `dlock status --watch`.
const MIN_STALE_MS = 2000;
// Maximum time of a request. The server needs at most 5 s to find out that the database does not respond.
const REQUEST_TIMEOUT_MS = 20000;
// Maximum time from a request that failed, or that got old data, to the next one.
const RETRY_MS = 3000;
// Time for which a button says that its command was copied.
const COPIED_MS = 2000;
// Time after which a page in the background stops asking the server.
const HIDDEN_MS = 30000;

const element = (id) => document.getElementById(id);

const page = {
  head: null,             // the latest overview
  tag: "",                // its entity tag
  serverTime: 0,          // the time of its records on the server's clock, in milliseconds since 1970
  received: 0,            // when its records were current, by performance.now()
  failure: "",            // why the data is not current
  loading: null,          // the latest request for the overview, or null while the page is in the background
  timer: 0,               // starts the next request for the overview
  problems: 0,            // number of locks that need attention
  limit: PAGE,            // maximum number of rows
  shown: [],              // the lines that the list shows
  problemNames: "",       // the names of the locks that the page describes above the list
  updates: 0,             // number of overviews
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

// Shows `items` as the children of `parent`, in this order. The member `key` of an item identifies its child, which keeps its
// focus, and its selection unless it moves. If the child with the focus disappears, `fallback` gets the focus.
function showItems(parent, items, fallback, createChild, fill) {
  const focused = document.activeElement;
  const hadFocus = parent.contains(focused);
  const present = new Map(Array.from(parent.children, (child) => [child.dataset.key, child]));
  const nodes = items.map((item) => {
    const node = present.get(item.key) || createChild(item);
    node.dataset.key = item.key;
    fill(node, item);
    return node;
  });
  const kept = new Set(nodes);
  for (const child of present.values()) if (!kept.has(child)) child.remove();
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
  if (hadFocus && document.activeElement !== focused) {
    (parent.contains(focused) ? focused : fallback).focus({ preventScroll: true });
  }
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

const short = (ms) => ms < 1000 ? `${ms}ms` : age(ms);
const dataAge = () => performance.now() - page.received;
const serverNow = () => page.serverTime + dataAge();
const timeOf = (ms) => new Date(ms).toISOString().slice(11, 19) + " UTC";
const staleAfter = () => Math.max(page.head ? 2 * page.head.interval_ms : 0, MIN_STALE_MS);
const isStale = () => page.failure !== "" || !page.head || dataAge() > staleAfter();

// The name of the action that the address selects, or null.
function selectedName() {
  const match = /^#\/lock\/(.+)$/.exec(location.hash);
  if (!match) return null;
  try { return decodeURIComponent(match[1]); } catch { return null; }
}

const lineOf = (name) => page.head?.locks.find((line) => line.action === name);

// ---- requests

// Requests `path`. Returns why the request failed, or the headers of the response and the document, which is null if the
// page has the document with the entity tag `tag`.
async function fetchDocument(path, tag) {
  try {
    const headers = tag ? { "If-None-Match": tag } : {};
    const response = await fetch(path, { headers, signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS) });
    const received = performance.now();
    const text = await response.text();
    if (response.ok || response.status === 304) {
      return { failure: "", headers: response.headers, document: response.ok ? JSON.parse(text) : null, received };
    }
    // The reasons of dlock are plain text.
    const isReason = response.headers.get("content-type")?.startsWith("text/plain");
    return { failure: isReason ? text.trim() : "dlock serve, or a proxy before it, refuses the connection" };
  } catch {
    return { failure: "dlock serve does not respond" };
  }
}

async function load() {
  clearTimeout(page.timer);
  const loading = page.loading = {};
  const { failure, headers, document, received } = await fetchDocument("overview.json", page.tag);
  if (page.loading !== loading) return;
  page.failure = failure;
  let pause = Math.min(page.head?.interval_ms ?? RETRY_MS, RETRY_MS);
  if (!failure) {
    const age = Number(headers.get("dlock-age-ms"));
    page.received = received - age;
    page.serverTime = Number(headers.get("dlock-server-time-ms"));
    if (document) {
      page.head = document;
      page.tag = headers.get("etag");
    }
    loadDetail();
    // Then the server reads newer records, or a little later.
    pause = Math.max(page.head.interval_ms - age, pause / 4);
  }
  page.timer = setTimeout(load, pause);
  if (!document) return tick();
  render();
  page.updates += 1;
  measure("update", received);
  // The task runs after the next frame is drawn.
  requestAnimationFrame(() => setTimeout(() => measure("frame", received)));
}

function stopLoading() {
  page.loading = null;
  clearTimeout(page.timer);
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
  for (const line of page.head.locks) {
    const text = words.length ? `${line.action}\n${line.holder || ""}\n${line.host || ""}`.toLowerCase() : "";
    if (matches(line) && words.every((word) => text.includes(word))) found.push(line);
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
  for (const line of page.head.locks) {
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
  page.shown = lines.slice(0, page.limit);
  const [total, rest] = [page.head.locks.length, lines.length - page.shown.length];
  const summary = total === 0
    ? "No lock has been used yet."
    : lines.length === total ? `${total} locks` : `${lines.length} of ${total} locks`;
  setText(element("summary"), summary + (rest ? `, the first ${page.shown.length} are shown` : ""));
  element("more").hidden = !rest;
  setText(element("more"), `Show ${Math.min(PAGE, rest)} more`);
}

// Fills the rows of the list, as of now.
function fillRows() {
  const now = serverNow();
  fillTable("locks", page.shown.map((line) => ({ key: line.action, cells: [
    createLink(line.action),
    create("span", stateText(line), `badge s${line.severity}`),
    line.holder ?? "",
    line.since === undefined ? "" : age(now - line.since),
    line.expires === undefined ? "" : expiresIn(line.expires, now),
    line.waiters ? String(line.waiters) : "",
    line.last ? create("span", `${line.last.result}, ${age(now - line.last.ended)} ago`, line.last.is_good ? "" : "bad-text") : "",
  ] })));
}

// The holder may have renewed a lease that had not expired when the data was read.
function expiresIn(expires, now) {
  if (expires < page.serverTime && !isStale()) return `${age(now - expires)} ago`;
  return expires < now || isStale() ? "unknown" : age(expires - now);
}

function createLink(name) {
  const link = create("a", name);
  link.href = "#/lock/" + encodeURIComponent(name);
  return link;
}

// The diagnosis says more than the state if there is a problem.
function stateText(line) {
  const texts = {
    "not-renewing": "not renewed", "gone": "holder gone", "clock-set-back": "clock set back",
    "deadlocked": "deadlock", "min-hold": "held (min-hold)", "odd": "odd row",
  };
  return texts[line.diagnosis] || line.state;
}

// Updates everything that depends on the present time.
function tick() {
  const stale = isStale();
  document.body.classList.toggle("is-stale", stale && page.head !== null);
  const warning = element("stale");
  if (page.head) setText(element("age"), `data of ${timeOf(page.serverTime)}, ${age(dataAge())} old`);
  const isShown = stale && (page.head !== null || page.failure !== "");
  const state = page.head ? `; this is the state of ${timeOf(page.serverTime)}` : "";
  setText(warning, isShown ? `Stale: ${page.failure || "no response"}${state}` : "");
  warning.hidden = !isShown;
  tickDetail();
  if (!page.head) return;
  if (selectedName() === null) fillRows();
  const problems = page.problems ? `(${page.problems}) ` : "";
  const name = selectedName();
  const title = problems + (name === null ? "dlock" : `${name} - dlock`);
  if (document.title !== title) document.title = title;
}

// ---- problems and advice

function renderProblems() {
  const { problems } = page.head;
  const items = problems.map((problem) => ({ key: problem.action, line: lineOf(problem.action), ...problem }));
  showItems(element("problem-list"), items, element("locks"), createArticle, fillArticle);
  const names = items.map(({ key }) => key).join(", ");
  if (names !== page.problemNames) {
    page.problemNames = names;
    setText(element("announcement"), names ? `Problems and long waits: ${names}` : "No problems and no long waits.");
  }
  element("problems").hidden = problems.length === 0;
  // The server describes only the most urgent ones.
  const others = page.problems - problems.length;
  element("more-problems").hidden = others <= 0;
  setText(element("more-problems"), others > 0 ? `and ${others} more` : "");
}

function createArticle({ action }) {
  const node = create("article");
  const title = node.appendChild(create("h3"));
  title.append(createLink(action), " ", create("span", ""));
  return node;
}

function fillArticle(node, { line, ...advice }) {
  const [link, badge] = node.firstElementChild.children;
  badge.className = `badge s${line.severity}`;
  setText(badge, stateText(line));
  fillAdvice(node, line.severity, advice, link);
}

// Fills `node` with a diagnosis, advice and commands. The focus moves to `fallback` if it was on a command that no longer
// exists.
function fillAdvice(node, severity, { diagnosis, advice, commands }, fallback) {
  if (!node.parts) {
    node.parts = [create("p", "", "diagnosis"), create("p", ""), create("ul", undefined, "commands")];
    node.append(...node.parts);
  }
  node.className = `problem s${severity}`;
  setText(node.parts[0], diagnosis);
  setText(node.parts[1], advice);
  const items = commands.map((command) => ({ key: command.line, ...command }));
  showItems(node.parts[2], items, fallback, createCommand, (item, { purpose }) => setText(item.firstElementChild, purpose));
}

function createCommand({ line }) {
  const item = create("li");
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
  // The address may have changed, and its event comes later. A page in the background sends no requests.
  if (name === null || !page.detail || !page.loading || page.request) return;
  const own = page.request = {};
  page.detail.asked = performance.now();
  const { failure, document, received } = await fetchDocument("action.json?name=" + encodeURIComponent(name));
  // The user has selected another lock since.
  if (page.request !== own) return;
  page.request = null;
  page.detail.failure = failure;
  if (document) {
    page.detail.document = document;
    page.detail.current = received - document.age_ms;
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
  const line = lineOf(lock.action);
  element("detail-body").hidden = false;
  const severity = line ? line.severity : 3;
  element("name-state").className = `badge s${severity}`;
  setText(element("name-state"), line ? stateText(line) : lock.state);
  fillAdvice(element("diagnosis"), severity, { diagnosis: lock.diagnosis_text, ...document }, element("name"));
}

// Fills the facts and the tables. The records of `document` were current `passed` milliseconds ago.
function fillTimes({ lock, runs }, passed) {
  fillFacts(lock, passed);
  fillTable("queue", lock.waiters.map((waiter) => ({ key: String(waiter.position), cells: [
    String(waiter.position), waiter.holder, age(waiter.waited_ms + passed),
    waiter.alive === null ? "unknown" : waiter.alive ? "alive" : "gone", waiter.host, waiter.user, waiter.note,
  ] })));
  const longest = Math.max(1, ...runs.map((run) => (run.waited_ms || 0) + (run.is_run ? run.held_ms : 0)));
  fillTable("runs", runs.map((run, index) => ({ key: String(index), cells: [
    `${age(run.ended_ago_ms + passed)} ago`, run.result, run.holder, run.waited_ms === null ? "" : short(run.waited_ms),
    run.is_run ? short(run.held_ms) : "", run.is_run ? track(run, longest) : "",
  ] })));
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
  const items = facts.filter(([, value]) => value).map(([key, value]) => ({ key, value }));
  showItems(element("facts"), items, element("name"), createFact, (fact, { value }) => setText(fact.lastElementChild, value));
}

function createFact({ key }) {
  const fact = create("div");
  fact.append(create("dt", key), create("dd"));
  return fact;
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

// Fills a table with `rows`, which contain texts and nodes. Only cells that differ change.
function fillTable(id, rows) {
  const table = element(id);
  const headings = Array.from(table.tHead.rows[0].cells);
  showItems(table.tBodies[0], rows, table, () => createRow(headings), (row, { cells }) => cells.forEach((content, column) => {
    const cell = row.cells[column];
    if (!(content instanceof Node)) setText(cell, content);
    else if (!cell.firstChild?.isEqualNode(content)) cell.replaceChildren(content);
  }));
  if (element(`no-${id}`)) element(`no-${id}`).hidden = rows.length > 0;
}

// Rows and cells have roles, because the style for phones would otherwise hide that they belong to a table.
function createRow(headings) {
  const row = create("tr");
  row.setAttribute("role", "row");
  headings.forEach((heading, column) => {
    const cell = row.appendChild(create(column ? "td" : "th", "", heading.className));
    cell.setAttribute("role", column ? "cell" : "rowheader");
    if (column) cell.dataset.label = heading.textContent.toLowerCase(); else cell.scope = "row";
  });
  return row;
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
  if (name === null && left !== undefined) {
    (document.querySelector(`#rows [data-key="${CSS.escape(left)}"] a`) || element("locks")).focus();
  }
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
element("more-problems").addEventListener("click", () => {
  element("state").value = "attention";
  filterChanged();
  element("locks").focus();
});
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
let hiddenTimer = 0;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hiddenTimer);
  if (document.hidden) hiddenTimer = setTimeout(stopLoading, HIDDEN_MS);
  else if (!page.loading) load();
});
window.addEventListener("hashchange", navigate);
setInterval(() => {
  if (page.detail?.failure && performance.now() - page.detail.asked > RETRY_MS) loadDetail();
  tick();
}, 1000);
// A tab that is opened in the background sends its first request when the user looks at it.
if (!document.hidden) load();
navigate();
