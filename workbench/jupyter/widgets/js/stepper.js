// The stages of a journey side by side, and one selection through all of them.
import { atEnd, button, clamped, element, grouped, onKeys, wholeNumbers } from "./common.js";
import { makeList } from "./list.js";
import { makeLooks } from "./looks.js";
import { placeMarkup } from "./markup.js";
import { createTimeline } from "./timeline.js";
import { askedBlock, askingCallbacks } from "./timeline_pair.js";

const PANELS = [
  { stage: "capture", title: "Capture", lists: ["python", "calls"] },
  { stage: "lower", title: "Lower", lists: ["kernels"] },
  { stage: "render", title: "Render", lists: ["rendered"] },
  { stage: "schedule", title: "Schedule", lists: ["scheduled"] },
  { stage: "program", title: "Program", lists: ["instructions"] },
  { stage: "timeline", title: "Timeline", lists: ["spans"] },
];
const UNIT_CYCLES = "cycles of all its spans added up; units that work side by side are counted each";
const GONE_HERE = "the kernel is gone: run the cell again";

/** Builds the lab in `root`. `link` is the way to whoever answers: Python, or a record in the page. */
export function createStepper({ root, link, signal }) {
  root.classList.add("stepper");
  const lists = new Map();
  const step = (by) => link.ask("step", { by });
  const choose = async (text) => (await link.ask("choose", { text })) !== null;
  const strip = makeStrip({ root, check, go, why: () => looks.open("findings") });
  link.atGone(() => strip.rest(GONE_HERE, { why: !looks.has("findings") }));
  const bar = makeBar({ root, step, choose });
  const grid = element("div", { class: "panels" });
  const thread = makeThread({ link });
  root.append(grid);
  const looks = makeLooks(root, {
    link,
    signal,
    spans: () => lists.get("spans")?.rows ?? [],
    begin: () => picture.begin(),
    moveCursor: (cycle) => picture.cursor(cycle),
    marked: (name) => lists.get(name)?.rows ?? [],
    pick: (row, name = "spans") => link.ask("pick", { name, row }),
    choose,
  });
  root.append(thread.root);
  const panels = new Map(PANELS.map((panel) => [panel.stage, makePanel(grid, panel, { link, lists, signal, zoom })]));
  const picture = makePicture(grid, { link, signal, lists, cursor: (cycle) => looks.cursor(cycle) });
  let at = "capture";

  function go(stage, { focus = true } = {}) {
    at = stage;
    strip.at(stage);
    for (const [name, panel] of panels) panel.root.classList.toggle("now", name === stage);
    picture.root.classList.toggle("now", stage === "timeline");
    if (focus) strip.focus(stage);
  }

  function stepStage(by) {
    const names = PANELS.map((panel) => panel.stage);
    go(names[clamped(names.indexOf(at) + by, 0, names.length - 1)]);
  }

  function zoom(stage) {
    const alone = !grid.classList.contains("alone") || stage !== at;
    go(stage, { focus: false });
    grid.classList.toggle("alone", alone);
    for (const panel of panels.values()) panel.zoomed(alone);
  }

  async function check(stage) {
    const found = await link.ask("check", { stage });
    if (found) strip.fill(found.answer.stages);
    return found?.answer.said;
  }

  function show(about) {
    bar.show(about);
    for (const panel of panels.values()) panel.count(about.what !== "");
    thread.refresh();
    looks.selected();
  }

  link.on("selection", (given, buffers) => {
    const marks = new Map(given.lists.map((name, place) => [name, wholeNumbers(buffers[place])]));
    for (const [name, list] of lists) list.mark(marks.get(name) ?? new Uint32Array(0));
    picture.mark(marks.get("spans") ?? new Uint32Array(0));
    show(given.selection);
  });

  onKeys(
    root,
    {
      ArrowRight: () => stepStage(1),
      ArrowLeft: () => stepStage(-1),
      "Alt+ArrowLeft": () => step(-1),
      "Alt+ArrowRight": () => step(1),
      z: () => zoom(at),
      Escape: () => choose(""),
    },
    signal,
  );

  async function open() {
    const found = await link.ask("open");
    if (!found) return;
    strip.fill(found.answer.stages, found.answer.checkable);
    looks.fill(found.answer.looks);
    if (found.answer.looks.includes("findings")) strip.askWhy();
    go(found.answer.at, { focus: false });
    const opened = (about) => {
      strip.fill(about.stages);
      show(about.selection);
    };
    await Promise.all([...panels.values()].map((panel) => panel.open(opened))); // answered one after another
    picture.open();
  }
  open();
}

/** The strip from capture to timeline: a tab for each stage with its figures, and a badge that checks it. */
function makeStrip({ root, check, go, why }) {
  const tabs = new Map();
  let resting = false; // true if nobody is there who could check
  const strip = element("div", { class: "strip", role: "group", "aria-label": "stages" });
  for (const { stage, title } of PANELS) {
    const name = button("", () => go(stage), { class: "stage", "aria-pressed": "false" });
    name.append(element("span", { class: "title" }, title), element("b", {}, "…"), element("span", { class: "soft" }));
    const marks = element("div", { class: "marks" });
    const card = element("div", { class: "card-of", "data-stage": stage }, name, marks);
    tabs.set(stage, { card, name, marks, badge: null });
    strip.append(card);
  }
  root.append(strip);
  const said = element("pre", { class: "said", role: "status", hidden: true });
  root.append(said);

  function badgeOf(stage) {
    const press = async () => {
      badge.disabled = true;
      badge.textContent = "checking…";
      nameBadge(stage, badge);
      const text = await check(stage);
      badge.disabled = resting;
      if (badge.textContent === "checking…") {
        badge.textContent = "check";
        nameBadge(stage, badge);
      }
      said.textContent = text ?? "";
      said.hidden = !text;
    };
    const badge = button("check", press, { class: "badge" });
    return badge;
  }

  /** Names a badge; the name begins with its visible text. */
  function nameBadge(stage, badge, said) {
    badge.setAttribute("aria-label", `${badge.textContent} ${stage}${said ? `: ${said}` : ""}`);
  }

  return {
    fill(cards, checkable) {
      for (const { name, figures, check: told } of cards) {
        const tab = tabs.get(name);
        const [, first, rest] = tab.name.children;
        first.textContent = figures[0] ?? "…";
        rest.textContent = figures.slice(1).join(", ");
        if (checkable?.includes(name)) tab.marks.append((tab.badge = badgeOf(name)));
        if (!tab.badge) continue;
        tab.badge.classList.toggle("good", told?.ok === true);
        tab.badge.classList.toggle("bad", told?.ok === false);
        if (told) tab.badge.textContent = told.ok ? "✓ right" : "✗ wrong";
        tab.badge.title = told?.said ?? `compares what this stage computes with PyTorch: j.check()`;
        nameBadge(name, tab.badge, told?.said);
      }
    },
    /** Adds a button beside the cycles that goes to the findings, which explain the cycles and are far below. */
    askWhy() {
      const told = "why? The findings: why the run takes as long as it does";
      tabs.get("timeline").marks.prepend(button("why?", why, { class: "why", label: told }));
    },
    /** Disables questions that nobody answers any more; findings that were opened stay. */
    rest(reason, { why: alsoWhy }) {
      resting = true;
      const buttons = strip.querySelectorAll(alsoWhy ? ".badge, .why" : ".badge");
      for (const button of buttons) {
        button.disabled = true;
        if (button.textContent === "check" || button.matches(".why")) button.title = reason;
      }
    },
    at(stage) {
      for (const [name, tab] of tabs) {
        tab.card.classList.toggle("now", name === stage);
        tab.name.setAttribute("aria-pressed", String(name === stage));
      }
    },
    focus: (stage) => tabs.get(stage).name.focus({ preventScroll: true }),
  };
}

/** The bar of the selection: its name, the ways back and forward, and a field for anything that `j.select` takes. */
function makeBar({ root, step, choose }) {
  const back = button("←", () => step(-1), { "aria-label": "back to the selection before", title: "back (Alt+←)" });
  const forward = button("→", () => step(1), { "aria-label": "forward again", title: "forward (Alt+→)" });
  const clear = button("×", () => choose(""), { "aria-label": "select nothing", title: "select nothing (Esc)" });
  const field = element("input", {
    type: "text",
    spellcheck: "false",
    placeholder: "select: a call, op, kernel, file.py:12 …",
    "aria-label": "select what j.select takes: a call, an op, a kernel, a line of Python, k0:12, k0#3, span 5",
    onkeydown: typed,
  });
  let taken = ""; // the field's text that made the current selection
  let shown = "";
  let choosing = false;
  const what = element("div", { class: "what", role: "status", "aria-live": "polite" });
  async function typed(event) {
    if (event.key !== "Enter") return;
    const text = field.value;
    choosing = true;
    const chosen = await choose(text);
    choosing = false;
    if (!chosen) return;
    taken = text;
    if (field.matches(":focus")) field.select();
  }

  root.append(element("div", { class: "bar" }, element("div", { class: "steps" }, back, forward, clear), field, what));
  /** Clears the field if its text is not the selection any more; a text that somebody is typing stays. */
  function another() {
    const typing = field.matches(":focus") && field.value !== taken;
    if (!choosing && !typing) field.value = taken = "";
  }

  return {
    show(about) {
      if (about.what !== shown) another();
      shown = about.what;
      back.disabled = !about.back;
      forward.disabled = !about.forward;
      clear.disabled = !about.what;
      const counts = element("span", { class: "soft" }, about.counts.filter((each) => !each.startsWith("0 ")).join(" · "));
      if (about.cycles) counts.append(" · ", element("span", { title: UNIT_CYCLES }, `${grouped(about.cycles)} unit cycles`));
      what.replaceChildren(
        ...(about.what
          ? [element("b", {}, about.what), counts]
          : [element("span", { class: "soft" }, "Press anything: what it became and came from is marked everywhere.")]),
      );
      if (about.absorbed?.length) what.append(element("span", { class: "soft" }, about.absorbed.join("; ")));
    },
  };
}

/** One stage: its lists, the number of selected rows of each, and the ways from one selected row to the next. */
function makePanel(grid, { stage, title, lists: names }, { link, lists, signal, zoom }) {
  const panel = element("div", { class: `panel of-${stage}`, role: "group", "aria-label": title });
  grid.append(panel);
  const counters = [];
  const larger = button("⤢", () => zoom(stage), { class: "zoom" });
  const zoomed = (alone) => {
    const told = alone ? "show all stages (z)" : `show ${title} alone (z)`;
    larger.textContent = alone ? "⤡" : "⤢";
    larger.title = told;
    larger.setAttribute("aria-label", told);
  };
  zoomed(false);
  const parts = names.map((name, place) => {
    const heading = element("b", { class: "name" }, title);
    const count = element("span", { class: "count soft" });
    const go = element("span", { class: "goes", hidden: true });
    const jump = element("select", { class: "jump", "aria-label": `go to a kernel in ${title}`, hidden: true });
    const head = element("div", { class: "top" }, heading, jump, count, go, ...(place ? [] : [larger]));
    const body = element("div", { class: `part part-${name}` }, head);
    panel.append(body);
    return { name, heading, count, go, jump, body };
  });

  function fill(part, about, buffers) {
    const { name } = part;
    part.heading.textContent = about.title;
    const list = makeList({
      root: part.body,
      name,
      label: about.title,
      about,
      fetchRows: (first, count) => link.ask("rows", { name, first, count }).then((found) => found?.answer.rows),
      pick: (row) => link.ask("pick", { name, row }),
      signal,
    });
    lists.set(name, list);
    counters.push(() => tell(part, list, about.entries));
    const go = (by, text, title, which) =>
      button(text, () => list.next(by), { class: "go", title, "aria-label": `${which}, in ${about.title}` });
    part.go.append(
      go(-1, "▲", "the one before", "the selected row before"), go(1, "▼", "the next one", "the next selected row"));
    part.jump.hidden = about.outline.length < 2;
    part.jump.append(element("option", { value: "" }, "go to…"), ...about.outline.map(([row, text]) => {
      const option = element("option", { value: row });
      placeMarkup(option, text);
      return option;
    }));
    part.jump.onchange = () => {
      if (part.jump.value) list.scrollTo(Number(part.jump.value));
      part.jump.value = "";
    };
    if (buffers.length) list.mark(wholeNumbers(buffers[0]));
  }

  function tell(part, list, all) {
    const marked = list.rows.length;
    part.count.textContent = marked ? `${grouped(marked)} of ${grouped(all)}` : grouped(all);
    part.count.classList.toggle("some", marked > 0);
    part.go.hidden = marked < 2;
  }

  return {
    root: panel,
    zoomed,
    count() {
      for (const each of counters) each();
    },
    open(opened) {
      return Promise.all(
        parts.map(async (part) => {
          const found = await link.ask("list", { name: part.name });
          if (!found || signal.aborted) return;
          fill(part, found.answer.list, found.buffers);
          opened(found.answer);
        }),
      );
    },
  };
}

/** The timeline as a picture. A span that is picked in the picture is selected everywhere. */
function makePicture(grid, { link, signal, lists, cursor }) {
  const root = element("div", { class: "panel of-timeline wide", role: "group", "aria-label": "timeline" });
  grid.append(root);
  let timeline = null;
  atEnd(signal, () => timeline?.destroy());
  const mark = (rows) => timeline?.select(rows);
  return {
    root,
    mark,
    cursor: (cycle) => timeline?.cursor(cycle),
    begin: () => timeline?.marked() ?? 0,
    async open() {
      const block = await askedBlock(link, 0, "timeline");
      if (!block || signal.aborted) return;
      const pick = ([row]) => {
        if (row === undefined) link.ask("choose", { text: "" });
        else link.ask("pick", { name: "spans", row });
      };
      timeline = createTimeline(root, block, { ...askingCallbacks(link, 0), select: pick, cursor });
      mark(lists.get("spans")?.rows ?? []);
    },
  };
}

/** The selection as a table, for users of a screen reader. */
function makeThread({ link }) {
  const body = element("div", { class: "thread-of" });
  const root = element("details", { class: "as-table", ontoggle: refresh },
    element("summary", {}, "The selection as a table"), body);
  async function refresh() {
    if (!root.open) return;
    const found = await link.ask("thread");
    if (found) placeMarkup(body, found.answer.html || "nothing is selected");
  }
  return { root, refresh };
}
