// The passes of a kernel: which changed what, any two texts against each other, and a text with its lines selected.
import { button, clamped, element, fillChoices, grouped, onKeys, wholeNumbers } from "./common.js";
import { placeMarkup } from "./markup.js";

const MODES = [
  ["unified", "below each other"],
  ["beside", "side by side"],
  ["text", "whole text after"],
];

/** The passes of one kernel: in the lab of the selected one. `marked(list)` are the rows that are selected in a list of the
 *  lab, and `pick(row, list)` selects one. */
export function createPasses(host, { link, signal, spans = () => [], marked = () => [], pick = null }) {
  const root = element("div", { class: "wb-passes" });
  host.append(root);
  const parts = makePassesParts(root, {
    load,
    press,
    search(text) {
      state.query = text.trim().toLowerCase();
      list();
    },
    mode(mode) {
      state.mode = mode;
      show();
    },
  });
  const texts = new Map();
  const state = { kernels: [], kernel: null, of: null, passes: [], at: -1, pins: [], mode: "unified", folded: true, query: "" };
  let turn = 0;

  /** The texts that are compared: the pinned ones, else those before and after the pass. */
  function pair() {
    return state.pins.length === 2 ? [...state.pins].sort((a, b) => a - b) : [state.at, state.at + 1];
  }

  async function open() {
    const found = await link.ask("open");
    if (!found || signal.aborted) return;
    state.kernels = found.answer.kernels;
    parts.why.textContent = state.kernels.length ? "" : "No kernel was scheduled.";
    parts.body.hidden = !state.kernels.length;
    if (state.kernels.length) await load(wanted() ?? state.kernels[0].name);
  }

  function wanted() {
    const rows = spans();
    const runs = ({ rows: ranges }) => ranges.some(([first, end]) => rows.some((row) => row >= first && row < end));
    const now = state.kernels.find(({ name }) => name === state.kernel);
    return (now && runs(now) ? now : state.kernels.find(runs))?.name ?? null;
  }

  async function load(kernel) {
    state.kernel = kernel;
    fillChoices(parts.kernels, state.kernels.map(({ name }) => [name, name]), kernel);
    const found = await link.ask("kernel", { kernel });
    if (!found || signal.aborted || state.kernel !== kernel) return;
    texts.clear();
    state.of = kernel; // whose passes these are: until they are there, those of another kernel are shown
    state.passes = found.answer.passes;
    state.pins = [];
    state.at = state.passes.findIndex(({ changes }) => changes);
    const seconds = state.passes.reduce((sum, each) => sum + each.milliseconds, 0);
    const quiet = state.passes.filter(({ changes }) => !changes).length;
    parts.sum.textContent = state.passes.length
      ? `${state.passes.length} passes, ${seconds.toFixed(1)} ms; ${quiet} changed nothing but names`
      : "No passes: the kernel was written in the scheduled form.";
    parts.both.hidden = !state.passes.length;
    list();
    await show();
  }

  function list() {
    fillPasses(parts.list, state, { go, pin: pinned, unfold });
  }

  function unfold() {
    state.folded = false;
    list();
  }

  function go(at) {
    state.at = clamped(at, 0, state.passes.length - 1);
    list();
    parts.list.querySelector('[aria-current="true"]')?.scrollIntoView({ block: "nearest" });
    show();
  }

  function step(by) {
    const seen = [...parts.list.querySelectorAll("[data-pass]")].map((row) => Number(row.dataset.pass));
    const place = seen.indexOf(state.at);
    if (seen.length) go(seen[clamped(place + by, 0, seen.length - 1)]);
  }

  function pinned(number) {
    const has = state.pins.includes(number);
    state.pins = has ? state.pins.filter((each) => each !== number) : [...state.pins, number].slice(-2);
    list();
    show();
  }

  async function textOf(number) {
    if (!texts.has(number)) {
      const { of } = state;
      const found = await link.ask("text", { kernel: of, number });
      if (!found || state.of !== of) return null;
      const [rendered, scheduled] = found.buffers.map(wholeNumbers);
      texts.set(number, { lines: found.answer.lines, rendered, scheduled });
    }
    return texts.get(number);
  }

  async function show() {
    const mine = ++turn;
    if (!state.passes.length) return;
    for (const [mode, button] of parts.modes) button.setAttribute("aria-pressed", String(mode === state.mode));
    const [before, after] = pair();
    const [old, now] = [await textOf(before), await textOf(after)];
    const found = state.mode === "text" ? true : await link.ask("diff", { kernel: state.of, before, after });
    if (mine !== turn || signal.aborted || !old || !now || !found) return;
    parts.head.replaceChildren(...headOf(state, before, after));
    const box = state.mode === "text" ? [wholeText(now)] : diffOf(state.mode, found.answer.stretches, old, now);
    parts.shown.replaceChildren(...box);
    parts.shown.classList.toggle("both", state.mode === "beside");
    mark();
  }

  /** Marks the lines that are selected in the lab's lists. */
  function mark() {
    const sets = { rendered: new Set(marked("rendered")), scheduled: new Set(marked("scheduled")) };
    for (const line of parts.shown.querySelectorAll(".l.k")) {
      const has = (name) => line.dataset[name] && sets[name].has(Number(line.dataset[name]));
      line.classList.toggle("s", Boolean(has("rendered") || has("scheduled")));
    }
  }

  function selected() {
    const kernel = wanted();
    if (kernel !== null && kernel !== state.kernel) load(kernel);
    else mark();
  }

  function press({ target }) {
    const line = target.closest?.(".l.k");
    if (!line || !pick || getSelection().toString()) return;
    const name = line.dataset.scheduled ? "scheduled" : "rendered";
    pick(Number(line.dataset[name]), name);
  }

  onKeys(parts.shown, { Enter: press }, signal);
  onKeys(
    parts.list,
    {
      ArrowDown: () => step(1),
      ArrowUp: () => step(-1),
      Home: () => step(-state.passes.length),
      End: () => step(state.passes.length),
      p: () => pinned(state.at + 1),
      Enter: () => pinned(state.at + 1),
    },
    signal,
  );
  open();
  return { selected, shown: selected, state, load };
}

/** The parts of the view, and what its controls do: `act` names it. */
function makePassesParts(root, act) {
  const modes = MODES.map(([mode, told]) => [mode, button(told, () => act.mode(mode), { "aria-pressed": "false" })]);
  const parts = {
    modes,
    why: element("p", { class: "soft" }, "Opening the passes…"),
    body: element("div", { hidden: true }),
    kernels: element("select", { "aria-label": "kernel", onchange: () => act.load(parts.kernels.value) }),
    sum: element("span", { class: "soft" }),
    search: element("input", { type: "search", placeholder: "search passes", "aria-label": "search passes",
      oninput: () => act.search(parts.search.value) }),
    list: element("div", { class: "ex-passes", role: "group", tabindex: "0", "aria-label": "passes; arrow keys go through them, p pins the text after one" }),
    head: element("div", { class: "ex-pass" }),
    shown: element("div", { class: "ex-diff", onclick: act.press }),
  };
  const tools = element("div", { class: "ex-controls", role: "group", "aria-label": "how changes are shown" },
    ...modes.map(([, button]) => button));
  parts.both = element("div", { class: "ex-two" }, element("div", {}, parts.search, parts.list),
    // The buttons stand above what changes its height, so that none moves away from under a press.
    element("div", { class: "ex-right" }, tools, parts.head, parts.shown));
  parts.body.append(element("div", { class: "ex-top" }, parts.kernels, parts.sum), parts.both);
  root.append(parts.why, parts.body);
  return parts;
}

/** The passes that are searched for; runs of those that changed nothing in one row, until that is pressed. */
function fillPasses(root, state, { go, pin, unfold }) {
  const { passes, query } = state;
  const meant = (each) => `${each.name} ${each.pipeline} ${each.source}`.toLowerCase().includes(query);
  const rows = [];
  let quiet = [];
  const close = () => {
    if (!quiet.length) return;
    const told = `${quiet.length} changed nothing: ${quiet.map((each) => each.name).join(", ")}`;
    rows.push(element("div", { class: "ex-quiet soft" }, button(told, unfold, { title: "show them" })));
    quiet = [];
  };
  rows.push(passRow(null, 0, state, { go, pin }));
  passes.forEach((each, at) => {
    if (!meant(each)) return;
    if (!each.changes && state.folded && !query) {
      quiet.push(each);
      return;
    }
    close();
    rows.push(passRow(each, at + 1, state, { go, pin }));
  });
  close();
  if (query && rows.length === 1) rows.push(element("p", { class: "soft" }, "no pass is called so"));
  root.replaceChildren(...rows);
}

/** A row: a pass and a pin for the text after it; the first is the rendered kernel. */
function passRow(each, number, state, { go, pin }) {
  const pinned = state.pins.includes(number);
  const what = each ? each.name : "the rendered kernel";
  const pinHere = (event) => {
    event.stopPropagation();
    pin(number);
  };
  const pinning = button(pinned ? "●" : "○", pinHere, { class: "ex-pin", "aria-pressed": String(pinned),
    title: "pin this text; two pinned ones are compared", "aria-label": `pin the text of ${what}` });
  if (!each) return element("div", { class: "ex-row soft" }, pinning, element("span", { class: "ex-name" }, what));
  const [before, after] = each.ops;
  const change = each.added === null ? "" : each.changes ? `+${each.added} −${each.removed}` : "";
  return element("div",
    { class: "ex-row", "data-pass": number - 1, "aria-current": String(state.at === number - 1),
      onclick: () => go(number - 1) },
    pinning, element("button", { type: "button", class: "ex-name" }, what),
    element("span", { class: "ex-delta" }, change),
    element("span", { class: "ex-ops", title: "operations before and after" }, before === after ? `${after}` : `${before} → ${after}`),
    element("span", { class: "ex-ms" }, `${each.milliseconds.toFixed(1)} ms`));
}

function headOf(state, before, after) {
  const name = (number) => (number ? `after ${state.passes[number - 1].name}` : "the rendered kernel");
  if (after !== before + 1 || state.pins.length === 2) {
    const run = state.passes.slice(before, after);
    const milliseconds = run.reduce((sum, each) => sum + each.milliseconds, 0);
    const ops = `${run[0]?.ops[0] ?? 0} → ${run.at(-1)?.ops[1] ?? 0} operations`;
    return [
      element("b", {}, `${name(before)} and ${name(after)}`),
      element("span", { class: "soft" }, `${run.length} passes between, ${milliseconds.toFixed(1)} ms, ${ops}`),
    ];
  }
  const each = state.passes[before];
  const told = [each.told, `${each.ops[0]} → ${each.ops[1]} operations`, `${each.milliseconds.toFixed(1)} ms`];
  return [
    element("b", {}, `${after} of ${state.passes.length}: ${each.name}`),
    element("span", { class: "soft" }, told.join(" · ")),
    element("code", { class: "whole" }, each.pipeline),
    element("span", { class: "soft" }, each.source),
  ];
}

/** A line with its number, or those in the text before and in the one after; one that can be selected says which row of
 *  the lab's lists it is. */
function passLine(kind, numbers, text, place) {
  const known = text && (text.scheduled[place] || text.rendered[place]);
  const line = element("div", { class: `l ${kind}${known ? " k" : ""}`, tabindex: known ? "0" : false });
  if (known) {
    if (text.scheduled[place]) line.dataset.scheduled = text.scheduled[place];
    if (text.rendered[place]) line.dataset.rendered = text.rendered[place];
  }
  const sign = { plus: "+", minus: "-" }[kind] ?? "";
  const body = element("span");
  placeMarkup(body, text ? text.lines[place] : "&nbsp;");
  line.append(...[...numbers, sign].map((each) => element("span", { class: "n", "data-n": each })), body);
  return line;
}

function passBox(lines, label) {
  const inside = element("div", { class: "in" }, ...lines);
  return element("div", { class: "code", tabindex: "0", role: "group", "aria-label": label }, inside);
}

function wholeText(text) {
  return passBox(text.lines.map((_, place) => passLine("", [place + 1], text, place)), "the whole text");
}

function leftOut(count, columns) {
  const told = `${grouped(count)} line${count > 1 ? "s" : ""} the same`;
  const dots = [...Array(columns).fill("…"), ""].map((each) => element("span", { class: "n", "data-n": each }));
  return element("div", { class: "l at" }, ...dots, element("span", {}, told));
}

/** Two texts' stretches as boxes of lines: one below the other, or two side by side. */
function diffOf(mode, stretches, old, now) {
  const changed = stretches.some((each) => each.length > 1 && !each[0]);
  if (!changed) return [element("p", { class: "soft" }, "Nothing changed but names.")];
  const [left, right] = [[], []];
  const unified = mode === "unified";
  const numbers = (old, now, own) => (unified ? [old, now] : [own]);
  for (const [same, before, befores, after, afters] of stretches) {
    if (before === undefined) {
      left.push(leftOut(same, unified ? 2 : 1));
      right.push(leftOut(same, 1));
      continue;
    }
    const lines = (count, made) => Array.from({ length: count }, (_, each) => made(before + each + 1, after + each + 1));
    const gone = lines(befores, (was) => passLine(same ? "" : "minus", numbers(was, "", was), old, was - 1));
    const come = lines(afters, (was, is) => passLine(same ? "" : "plus", numbers(same ? was : "", is, is), now, is - 1));
    if (unified) {
      left.push(...(same ? come : [...gone, ...come]));
      continue;
    }
    for (let each = 0; each < Math.max(befores, afters); each++) {
      left.push(gone[each] ?? passLine("", [""], null, 0));
      right.push(come[each] ?? passLine("", [""], null, 0));
    }
  }
  return unified ? [passBox(left, "changes")] : [passBox(left, "before"), passBox(right, "after")];
}
