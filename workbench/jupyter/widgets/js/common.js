// The common parts of all widgets: their frame, the link to Python, elements, the theme, sizes and keys.

/** Makes `{ render }` of a function that builds one widget. The function gets `{ model, root, link, signal }`;
 *  everything that it starts ends when `signal` aborts. */
export function widget(build) {
  return {
    render({ model, el }) {
      const life = new AbortController();
      const root = element("div", { class: "wb wb-lab" });
      keepToItself(root, life.signal);
      const notice = element("div", { class: "notice", role: "alert", hidden: true });
      const body = element("div", { class: "body" });
      root.append(notice, body);
      el.append(root);
      el.classList.add("wb-live");
      const link = connect(model, notice, life.signal);
      try {
        build({ model, root: body, link, signal: life.signal });
      } catch (error) {
        say(notice, `The widget could not be drawn: ${error.message}`);
      }
      return () => {
        life.abort();
        root.remove();
      };
    },
  };
}

/** An element with attributes and children. `true` and `false` set and leave out an attribute; a function listens to an
 *  event: `{ onclick: () => ... }`. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name.slice(2), value);
    else if (value !== false && value !== undefined) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

/** A button that calls `act`. Its `label` is its title, and its name if the text does not say enough. */
export function button(text, act, { label, ...attributes } = {}) {
  return element("button", { type: "button", "aria-label": label, title: label, onclick: act, ...attributes }, text);
}

/** Fills a `select` with `[value, text]` pairs, and hides it if there is nothing to choose. */
export function fillChoices(select, entries, chosen) {
  select.replaceChildren(...entries.map(([value, text]) => element("option", { value }, text)));
  select.value = chosen;
  select.hidden = entries.length < 2;
}

/** A table in a box that scrolls, both named `label`. Cells are texts, elements or ready cells; the columns with the
 *  numbers in `right` are aligned to the right. */
export function tableOf(label, heads, rows, { right = [], box = "scroll" } = {}) {
  const cell = (tag, told, place) => told instanceof HTMLTableCellElement ? told
    : element(tag, { class: right.includes(place) && "r", scope: tag === "th" && "col" }, told);
  const line = (tag, cells) => element("tr", {}, ...cells.map((told, place) => cell(tag, told, place)));
  const table = element("table", { class: "t", "aria-label": label },
    element("thead", {}, line("th", heads)), element("tbody", {}, ...rows.map((cells) => line("td", cells))));
  return element("div", { class: box, tabindex: "0", role: "group", "aria-label": label }, table);
}

/** The items of a list of facts, `[what, text or elements]` each. */
export function factsOf(pairs) {
  return pairs.flatMap(([what, told]) => [element("dt", {}, what), element("dd", {}, ...[told].flat())]);
}

/** A legend: `[attributes of a mark, what it means]`. */
export function legendOf(entries, attributes = { class: "legend" }) {
  const marked = ([mark, what]) => element("span", {}, element("i", mark), what);
  return element("div", attributes, ...entries.map(marked));
}

/** An id that no other widget of the page has. `crypto.randomUUID` is missing where a page comes by plain http. */
export function uniqueId(prefix) {
  return `${prefix}-${crypto.getRandomValues(new Uint32Array(2)).join("-")}`;
}

/** Runs `stop` when the widget ends. */
export function atEnd(signal, stop) {
  if (signal.aborted) stop();
  else signal.addEventListener("abort", stop, { once: true });
}

/** Keys and clicks in the widget are the widget's: "x" would cut the notebook's cell. */
function keepToItself(root, signal) {
  root.dataset.lmSuppressShortcuts = "true";
  root.dataset.jpSuppressContextMenu = "true";
  for (const kind of ["keydown", "keyup", "keypress"]) {
    root.addEventListener(kind, (event) => event.stopPropagation(), { signal });
  }
}

const PATIENCE_MILLISECONDS = 8000; // after this time the widget says that it waits; the question stays open
const GONE =
  "The kernel that made this widget is gone. Run the cell again to go on; what is shown below stays as it was.";
const WAITS = "Waiting for the kernel, which is busy or gone. If it was restarted, run the cell again.";

function say(notice, text) {
  notice.textContent = text;
  notice.hidden = !text;
}

/** The way to Python. `ask(what, given)` resolves to `{ answer, buffers }`, or to null after an error, which the widget
 *  then shows. `on(what, heard)` listens to messages that Python sends by itself. `cannot(what, given)` returns the
 *  reason why a question will have no answer, before it is asked, or an empty text. `gone()` is true if nobody can
 *  answer any more, and `atGone(act)` calls `act` when that happens. */
function connect(model, notice, signal) {
  const open = new Map();
  const heard = new Map();
  let last = 0;
  let gone = false;
  const whenGone = [];
  const receive = (message, buffers) => {
    if (message.tell !== undefined) {
      heard.get(message.tell)?.forEach((each) => each(message.given, buffers));
      return;
    }
    const waiting = open.get(message.id);
    if (!waiting) return;
    open.delete(message.id);
    clearTimeout(waiting.timer);
    say(notice, message.error ?? "");
    waiting.resolve(message.error ? null : { answer: message.answer, buffers });
  };
  const die = () => {
    if (gone) return;
    gone = true;
    say(notice, GONE);
    settle();
    whenGone.forEach((act) => act());
  };
  const settle = () => {
    for (const waiting of open.values()) {
      clearTimeout(waiting.timer);
      waiting.resolve(null);
    }
    open.clear();
  };
  model.on("msg:custom", receive);
  model.on("comm_live_update", die);
  say(notice, "");
  const status = model.widget_manager?.kernel?.statusChanged;
  const watch = (_, now) => ["dead", "restarting", "autorestarting", "terminating"].includes(now) && die();
  status?.connect(watch);
  atEnd(signal, () => {
    model.off("msg:custom", receive);
    model.off("comm_live_update", die);
    status?.disconnect(watch);
    settle();
    heard.clear();
    whenGone.length = 0;
  });
  return {
    ask(what, given = {}, buffers = []) {
      if (gone || signal.aborted) return Promise.resolve(null);
      const id = ++last;
      return new Promise((resolve) => {
        const timer = setTimeout(() => say(notice, WAITS), PATIENCE_MILLISECONDS);
        open.set(id, { resolve, timer });
        try {
          model.send({ id, ask: what, given }, undefined, buffers);
        } catch {
          die();
        }
      });
    },
    on(what, callback) {
      if (!heard.has(what)) heard.set(what, new Set());
      heard.get(what).add(callback);
      return () => heard.get(what)?.delete(callback);
    },
    cannot: (what, given = {}) => (gone ? GONE : model.cannot?.(what, given) ?? ""), // Python answers all questions, a record only the recorded ones
    gone: () => gone,
    atGone: (act) => (gone ? act() : whenGone.push(act)),
    say: (text) => say(notice, text),
  };
}

/** Calls `changed` when the page turns light or dark. */
export function watchTheme(changed, signal) {
  const observer = new MutationObserver(changed);
  observer.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-jp-theme-name"] });
  const preference = matchMedia("(prefers-color-scheme: dark)");
  preference.addEventListener("change", changed, { signal });
  atEnd(signal, () => observer.disconnect());
}

/** Calls `changed(width, height)` for each new size of the element, except while the element has no layout. */
export function watchSize(target, changed, signal) {
  const observer = new ResizeObserver((entries) => {
    const { width, height } = entries.at(-1).contentRect;
    if (width > 0) changed(width, height);
  });
  observer.observe(target);
  atEnd(signal, () => observer.disconnect());
}

/** Calls the function that `actions` has for a key: `{ ArrowLeft: () => ..., "Shift+F": ... }`. */
export function onKeys(target, actions, signal) {
  const listen = (event) => {
    if (event.defaultPrevented || event.metaKey) return; // used by an inner element, or the browser's
    const typing = event.target.matches?.("input, textarea, select");
    const plain = event.key.length > 1 ? event.key : event.key.toLowerCase();
    const held = [event.ctrlKey && "Ctrl", event.altKey && "Alt", event.shiftKey && "Shift"].filter(Boolean);
    const action = actions[[...held, plain].join("+")];
    if (!action || (typing && plain !== "Escape")) return;
    event.preventDefault();
    action(event);
  };
  target.addEventListener("keydown", listen, { signal });
}

const frameLooks = new Set();
const frameActs = new Set();
let nextFrame = 0;

/** Reads everything from the page before writing anything: a page that is read between two changes is laid out for
 *  each. */
function runFrame() {
  nextFrame = 0;
  const all = [...frameLooks, ...frameActs];
  frameLooks.clear();
  frameActs.clear();
  for (const each of all) {
    try {
      each();
    } catch (error) {
      reportError(error); // the error goes to the console, and the other calls are made
    }
  }
}

/** Calls `act` at most once a frame, with the latest arguments; `look` reads what `act` needs from the page. */
export function oncePerFrame(act, signal, look = null) {
  let latest = [];
  const runs = () => act(...latest);
  atEnd(signal, () => {
    frameActs.delete(runs);
    frameLooks.delete(look);
  });
  return (...given) => {
    if (signal.aborted) return;
    latest = given;
    frameActs.add(runs);
    if (look) frameLooks.add(look);
    nextFrame ||= requestAnimationFrame(runFrame);
  };
}

/** `12,345`. */
export function grouped(number) {
  return number.toLocaleString("en-US");
}

/** `+12,345`; no sign for zero or less. */
export function signed(number) {
  return number > 0 ? `+${grouped(number)}` : grouped(number);
}

/** The CSS class of a difference in cycles or bytes; none for 0. */
export function toneOf(more) {
  return more > 0 ? "worse" : more < 0 ? "better" : "";
}

/** A number moved into the range from `least` to `most`. */
export function clamped(number, least, most) {
  return Math.min(Math.max(number, least), most);
}

/** The first whole number from `low` on for which `holds` is true; it must be true for all larger ones too. `high` if
 *  it is true for none below `high`. */
export function firstWhere(low, high, holds) {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** A column of whole numbers from Python: a `memoryview` of little-endian u32. */
export function wholeNumbers(view) {
  const start = view.byteOffset;
  if (start % 4 === 0) return new Uint32Array(view.buffer, start, view.byteLength / 4);
  return new Uint32Array(view.buffer.slice(start, start + view.byteLength));
}
