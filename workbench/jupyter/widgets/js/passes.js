// The passes of a kernel: the changes of each, a comparison of any two texts, and a text with its selected lines.
import { button, clamped, element, fillChoices, onKeys } from "./common.js";
import { placeMarkup } from "./markup.js";

const MODES = [
  ["unified", "below each other"],
  ["beside", "side by side"],
  ["text", "whole text after"],
];

/** The passes of one kernel: in the lab the selected one. `marked(list)` returns the selected rows of a list of the
 *  lab; `pick(row, list)` selects a row. */
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
  const state = { kernels: [], kernel: null, of: null, passes: [], at: -1, pins: [], mode: "unified", folded: true, query: "" };
  let turn = 0;

  /** The compared texts: the pinned ones, else those before and after the pass. */
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
    state.of = kernel; // the kernel of these passes: until they are there, another kernel's are shown
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

  async function show() {
    const mine = ++turn;
    if (!state.passes.length) return;
    for (const [mode, button] of parts.modes) button.setAttribute("aria-pressed", String(mode === state.mode));
    const [before, after] = pair();
    const { of: kernel, mode } = state;
    const changes = { kernel, before, after, beside: mode === "beside" };
    const found = await (mode === "text" ? link.ask("text", { kernel, number: after }) : link.ask("diff", changes));
    if (mine !== turn || signal.aborted || !found) return;
    parts.head.replaceChildren(...headOf(state, before, after));
    placeMarkup(parts.shown, found.answer.html);
    parts.shown.classList.toggle("both", mode === "beside");
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

/** The elements of the view; its controls call functions of `act`. */
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

/** The passes that match the search; a run of passes that changed nothing is one row, until it is pressed. */
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

/** A row: a pass, and a pin for the text after it; the first row is the rendered kernel. */
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
