// A kernel's loop over tiles as it ran: iterations or slots below each other, time to the right.
import { CANVAS_FONT, colourOf, coloursOf, fillBox, frameBox, sizedContext, writeText } from "./canvas.js";
import {
  button, clamped, element, factsOf, fillChoices, grouped, legendOf, oncePerFrame, onKeys, watchSize, watchTheme,
} from "./common.js";
import { columnsOf } from "./timeline_data.js";

const SHOWN_ROWS = 14;
const ROW_HIGH = 32; // two lines of words, apart from each other and from those of the next row
const LANE_HIGH = 8;
const LABEL_AT = 9.5;
const SHARE_AT = 23;
const LABEL_WIDE = 92;
const AXIS_HIGH = 18;
const PIPELINE_FONT = "11.5px system-ui, sans-serif";
const NOBODY = 0xffffffff;
const LANES = { load: 0, copy: 0, compute: 1, barrier: 1, store: 2 };

/** The spans of a launch by iteration, as `workbench.explaining.views.timelines.pipelines` packed them. */
export class Pipeline {
  constructor(block) {
    this.header = block.header;
    Object.assign(this, columnsOf(block));
    this.count = this.core.length;
    this.rowOf = new Uint32Array(this.span.length);
    for (let row = 0; row < this.count; row++) this.rowOf.fill(row, this.first[row], this.first[row + 1]);
  }

  /** The part of a column with several numbers for each place that belongs to one place. */
  partOf(name, place) {
    const first = this[`${name}_first`];
    return [...this[name].subarray(first[place], first[place + 1])];
  }

  label(row) {
    return this.partOf("at", row).join("·") || "outside";
  }

  named(span, kind, unit) {
    return `span ${span} (${this.header.kinds[kind]} on ${this.header.units[unit]})`;
  }

  reason(place) {
    const blocker =
      this.waited_for[place] === NOBODY
        ? this.header.another
        : this.named(this.waited_for[place], this.waited_kind[place], this.waited_unit[place]);
    const next = this.named(this.span[place], this.kind[place], this.unit[place]);
    const told = this.header.reasons[this.header.causes[this.cause[place]]];
    return told.replace("{next}", next).replace("{blocker}", blocker);
  }

  /** The time of rows `first` to `last`: from their first issue to their last end. */
  window(first, last) {
    let [begin, end] = [Infinity, 0];
    for (let place = this.first[first]; place < this.first[last]; place++) {
      begin = Math.min(begin, this.issue[place]);
      end = Math.max(end, this.end[place]);
    }
    return begin < end ? [begin, end] : [0, Math.max(this.header.length, 1)];
  }
}

/** One kernel: in the lab the selected one; `pick(row)` selects a span in the lab. */
export function createPipeline(host, { link, signal, spans = () => [], pick = () => {} }) {
  const root = element("div", { class: "wb-pipeline" });
  host.append(root);
  const slots = () => {
    state.bySlots = !state.bySlots;
    parts.slots.setAttribute("aria-pressed", String(state.bySlots));
    paint();
  };
  const press = (event) => {
    const found = pipelineBarAt(state.boxes, event.offsetX, event.offsetY);
    if (found !== null) show(found);
  };
  const parts = makePipelineParts(root, { load, by: (loop) => load(meant, loop), slots, scroll, press });
  let launches = [];
  let meant = null; // the launch of the latest request: answers may come late
  let turn = 0;
  const state = { view: null, first: 0, active: -1, bySlots: false, marked: new Set(), cursor: null, boxes: [] };

  const paint = oncePerFrame(() => {
    if (!state.view || !parts.body.clientWidth) return;
    paintPipeline(parts.canvas, parts.body, state);
    tellPipelineBar(parts, state);
  }, signal);

  async function open() {
    const found = await link.ask("open");
    if (!found || signal.aborted) return;
    launches = found.answer.launches;
    parts.why.textContent = launches.length ? "" : "Nothing of this run is made of tiles.";
    parts.body.hidden = !launches.length;
    if (launches.length) await load(wanted() ?? found.answer.first, found.answer.loop);
  }

  /** The launch of the first selected span; null if no span of a launch with tiles is selected. */
  function wanted() {
    const rows = spans();
    const shown = launches.find(({ launch }) => launch === meant);
    const has = ({ first, end }) => rows.some((row) => row >= first && row < end);
    return (shown && has(shown) ? shown : launches.find(has))?.launch ?? null;
  }

  async function load(launch, loop = null) {
    meant = launch;
    const mine = ++turn;
    const found = await link.ask("launch", { launch, loop });
    if (!found || signal.aborted || mine !== turn) return;
    state.view = new Pipeline({ header: found.answer.header, data: found.buffers[0] });
    const { header, count } = state.view;
    parts.title.textContent = header.title;
    parts.sum.textContent = header.sum;
    fillChoices(parts.kernels, launches.map((each) => [each.launch, each.name]), launch);
    fillChoices(parts.loops, [["", "by all loops"], ...header.known_loops.map((each) => [each, `by ${each}`])], loop ?? "");
    parts.slider.max = Math.max(count - SHOWN_ROWS, 0);
    parts.slider.hidden = count <= SHOWN_ROWS;
    state.active = -1;
    scroll(0);
    mark();
  }

  /** Frames the bars of the selected spans, and scrolls to the first. */
  function mark() {
    state.marked = new Set(spans());
    const place = state.view.span.findIndex((span) => state.marked.has(span));
    const few = state.marked.size < state.view.span.length;
    if (place >= 0 && few && state.marked.has(state.view.span[state.active]) === false) show(place, { tell: false });
    paint();
  }

  /** Makes a bar the active one, and scrolls to its row. */
  function show(place, { tell = true } = {}) {
    const { view } = state;
    state.active = clamped(place, 0, view.span.length - 1);
    const row = view.rowOf[state.active];
    if (row < state.first || row >= state.first + SHOWN_ROWS) scroll(row - Math.floor(SHOWN_ROWS / 2));
    if (tell) pick(view.span[state.active]);
    paint();
  }

  function scroll(first) {
    state.first = clamped(first, 0, Math.max(state.view.count - SHOWN_ROWS, 0));
    parts.slider.value = state.first;
    paint();
  }

  function moveRow(by) {
    const { view, active } = state;
    const row = clamped((active < 0 ? -by : view.rowOf[active]) + by, 0, view.count - 1);
    show(view.first[row]);
  }

  function selected() {
    if (!launches.length) return;
    const launch = wanted();
    if (launch !== null && launch !== meant) load(launch);
    else if (state.view) mark();
  }

  onKeys(
    parts.canvas,
    {
      ArrowDown: () => moveRow(1),
      ArrowUp: () => moveRow(-1),
      ArrowRight: () => show(state.active + 1),
      ArrowLeft: () => show(state.active - 1),
      PageDown: () => scroll(state.first + SHOWN_ROWS),
      PageUp: () => scroll(state.first - SHOWN_ROWS),
      Home: () => scroll(0),
      End: () => scroll(state.view.count),
    },
    signal,
  );
  watchSize(parts.body, paint, signal);
  watchTheme(paint, signal);
  open();
  return {
    selected,
    shown: selected,
    cursor(cycle) {
      state.cursor = cycle;
      paint();
    },
    state,
  };
}

/** The elements of the view; its controls call functions of `act`. */
function makePipelineParts(root, act) {
  const parts = {
    why: element("p", { class: "soft" }, "Opening the pipeline…"),
    body: element("div", { hidden: true }),
    title: element("b"),
    sum: element("p"),
    kernels: element("select", { "aria-label": "kernel", onchange: () => act.load(Number(parts.kernels.value)) }),
    loops: element("select", { "aria-label": "rows: iterations of",
      onchange: () => act.by(parts.loops.value || null) }),
    slots: button("by slots", act.slots, { "aria-pressed": "false" }),
    slider: element("input", { type: "range", min: 0, value: 0, "aria-label": "first iteration that is shown",
      oninput: () => act.scroll(Number(parts.slider.value)) }),
    canvas: element("canvas", { role: "img", tabindex: "0", onclick: act.press }),
    told: element("div", { class: "ex-told", role: "status" }),
  };
  const legend = legendOf([
    ["k-LOAD", "load"], ["k-STORE", "store"], ["k-MATMUL", "matmul"], ["k-VECTOR", "vector"],
    ["mark", "the core computes: what moves here is hidden"], ["soft", "line before a bar: it waits"],
  ].map(([colour, told]) => [{ style: `background:var(--${colour})` }, told]));
  parts.body.append(
    element("div", { class: "ex-top" }, parts.title, parts.kernels, parts.loops, parts.slots, parts.slider),
    parts.sum, parts.canvas, legend, parts.told,
  );
  root.append(parts.why, parts.body);
  return parts;
}

/** Draws rows and keeps the boxes of their bars. */
function paintPipeline(canvas, root, state) {
  const { view, first } = state;
  const last = Math.min(first + SHOWN_ROWS, view.count);
  const labels = state.bySlots
    ? view.header.slots
    : Array.from({ length: last - first }, (_, place) => view.label(first + place));
  const width = root.clientWidth;
  const height = labels.length * ROW_HIGH + AXIS_HIGH;
  const context = sizedContext(canvas, width, height);
  const [begin, end] = view.window(first, last);
  const scale = (width - LABEL_WIDE - 4) / (end - begin);
  const x = (cycle) => LABEL_WIDE + (cycle - begin) * scale;
  const palette = coloursOf(root, ["ink", "soft", "line", "mark", "accent"]);
  palette.kinds = view.header.kinds.map((name) => colourOf(root, `k-${name}`));
  palette.causes = view.header.causes.map((name) => colourOf(root, `c-${name === "bandwidth" ? "memory_peak" : name}`));
  context.font = PIPELINE_FONT;
  labels.forEach((label, place) => {
    const core = state.bySlots ? 0 : view.core[first + place];
    paintBusy(context, view, core, place * ROW_HIGH, x, begin, end, palette);
    fillBox(context, palette.line, 0, place * ROW_HIGH, width, 1);
    const moving = state.bySlots ? 0 : view.moving[first + place];
    const write = (text, at, colour) =>
      writeText(context, text, LABEL_WIDE - 8, place * ROW_HIGH + at, colour, "right", LABEL_WIDE - 10);
    write(label, moving ? LABEL_AT : ROW_HIGH / 2, palette.ink);
    if (!moving) return;
    context.font = CANVAS_FONT;
    write(`${Math.round((100 * view.row_hidden[first + place]) / moving)}% hidden`, SHARE_AT, palette.soft);
    context.font = PIPELINE_FONT;
  });
  state.boxes = barsOf(state, first, last, x);
  for (const box of state.boxes) paintPipelineWait(context, view, box, x, palette);
  for (const box of state.boxes) paintPipelineBar(context, view, box, state, palette);
  paintPipelineAxis(context, state, [begin, end], x, width, height, palette);
  const of = state.bySlots ? "slots" : "iterations";
  const told = `${of} ${first} to ${last - 1} of ${view.count}, cycles ${grouped(view.header.begin + begin)} to ${grouped(view.header.begin + end)}`;
  canvas.setAttribute("aria-label", `${told}; arrow keys go from bar to bar`);
}

/** The places of the bars: each in the row of its iteration, or in those of its slots. */
function barsOf(state, first, last, x) {
  const { view } = state;
  const boxes = [];
  for (let place = view.first[first]; place < view.first[last]; place++) {
    const [left, right] = [x(view.start[place]), x(view.end[place])];
    const lane = LANES[view.header.stages[view.stage[place]]];
    for (const row of state.bySlots ? view.partOf("slot", place) : [view.rowOf[place] - first]) {
      const top = row * ROW_HIGH + 5 + lane * LANE_HIGH;
      boxes.push({ place, left, wide: Math.max(right - left, 0.8), top, high: LANE_HIGH - 1 });
    }
  }
  return boxes;
}

function paintBusy(context, view, core, top, x, begin, end, palette) {
  for (let place = view.busy_first[core]; place < view.busy_first[core + 1]; place++) {
    const [left, right] = [Math.max(view.busy_begin[place], begin), Math.min(view.busy_end[place], end)];
    if (left < right) fillBox(context, palette.mark, x(left), top, x(right) - x(left), ROW_HIGH);
  }
}

function paintPipelineWait(context, view, { place, left, top, high }, x, palette) {
  const from = x(view.issue[place]);
  if (left - from < 0.5) return;
  fillBox(context, palette.causes[view.cause[place]], from, top + high / 2 - 0.75, left - from, 1.5, 0.75);
}

function paintPipelineBar(context, view, { place, left, wide, top, high }, state, palette) {
  fillBox(context, palette.kinds[view.kind[place]], left, top, wide, high);
  const active = place === state.active;
  if (!active && !state.marked.has(view.span[place])) return;
  frameBox(context, active ? palette.ink : palette.accent, active ? 2 : 1.5, left - 1, top - 1, wide + 2, high + 2);
}

function paintPipelineAxis(context, state, [begin, end], x, width, height, palette) {
  const from = state.view.header.begin;
  writeText(context, `cycle ${grouped(from + begin)}`, LABEL_WIDE, height - 8, palette.soft);
  writeText(context, grouped(from + end), width - 4, height - 8, palette.soft, "right");
  const cursor = state.cursor === null ? -1 : state.cursor - from;
  if (cursor >= begin && cursor <= end) fillBox(context, palette.accent, x(cursor) - 0.5, 0, 1, height - AXIS_HIGH);
}

/** The bar at a point, or the nearest within a few pixels; of overlapping bars the one drawn last. */
function pipelineBarAt(boxes, x, y) {
  const near = 4;
  const hit = (by) => boxes.findLast(({ left, wide, top, high }) =>
    x >= left - by && x <= left + wide + by && y >= top - by / 2 && y <= top + high + by / 2);
  return (hit(0) ?? hit(near))?.place ?? null;
}

function tellPipelineBar(parts, state) {
  const { view, active } = state;
  if (active < 0) {
    parts.told.replaceChildren(element("span", { class: "soft" }, "Press a bar: what it waited for, and behind what it is hidden."));
    return;
  }
  const stage = view.header.stages[view.stage[active]];
  const from = view.header.begin;
  const cycles = view.end[active] - view.start[active];
  const waited = view.start[active] - view.issue[active];
  const during = view.partOf("during", active);
  const moves = stage === "load" || stage === "store";
  const behind = during.length ? `, behind the work of ${during.map((row) => view.label(row)).join(", ")}` : "";
  const facts = [
    ["iteration", `${view.label(view.rowOf[active])} of ${view.header.loops.join("·") || "no loop"}`],
    ["slots", view.partOf("slot", active).map((slot) => view.header.slots[slot]).join(", ") || "none"],
    ["runs", `cycles ${grouped(from + view.start[active])} to ${grouped(from + view.end[active])}: ${grouped(cycles)}`],
    ["waited", `${grouped(waited)} cycles after it was issued; ${view.reason(active)}`],
    ...(moves ? [["hidden", `${grouped(view.hidden[active])} of ${grouped(cycles)} cycles${behind}`]] : []),
  ];
  const name = element("b", {}, view.named(view.span[active], view.kind[active], view.unit[active]));
  parts.told.replaceChildren(name, element("dl", { class: "ex-facts" }, ...factsOf(facts)));
}
