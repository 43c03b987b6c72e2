// The timeline: lanes of units over time. It draws the columns that Python packed, describes the picked span or area,
// and asks for missing data.

import { onKeys } from "./common.js";
import { TimelineData, columnsOf } from "./timeline_data.js";
import { TimelineFrame } from "./timeline_frame.js";
import { useHands, useStrip } from "./timeline_hands.js";
import { rowAt } from "./timeline_layout.js";
import {
  bringIntoView, gapBefore, goToBlocker, openLaunch, search, showSelected, stepFound, stepLane, stepSpan, toggleCritical,
} from "./timeline_moves.js";
import { tellArea, tellGap, tellNothing, tellSpan } from "./timeline_panel.js";
import { held, pannedWithin, snapped, zoomed } from "./timeline_window.js";
import { gapLine, spanLine } from "./timeline_words.js";

const LEAST_CYCLES = 8; // in view: single cycles are then wide enough for the pointer
const REACH = 7; // pixels within which the ruler snaps to the border of a span
const PAN_PART = 0.2;

/** Draws a timeline in `host`. `data` is `{ header, data }` of Python's `timeline_columns`. Callbacks, all optional:
 *  `select(rows, how)`, `cursor(cycle)`, `area(begin, end, units)`, `window(begin, end)`, `unit(name)`; `gap(unit,
 *  cycle)` resolves to `{ findings }` or `{ note }`, `about(row)` of a span to `{ findings }`, and `more("dependences"
 *  | "critical")` to another block of columns; all three resolve to null if nobody knows. `whole` is the number of
 *  cycles to show, if it is more than the run's. In the returned object `select(rows)` marks rows of the trace,
 *  `marked()` returns the cycle in which the first of them begins, and `show(begin, end)` shows a stretch of time; none
 *  of them calls back. */
export function createTimeline(host, data, callbacks = {}) {
  const timeline = new Timeline(host, new TimelineData(data), callbacks);
  return {
    select: (rows) => timeline.mark(rows, null),
    cursor: (cycle) => timeline.setCursor(cycle),
    marked: () => timeline.beginOfMarked(),
    show: (begin, end) => timeline.setWindow({ begin, end }, false),
    setUnit: (unit) => timeline.setUnit(unit),
    setTheme: () => timeline.setTheme(),
    destroy: () => timeline.life.abort(),
    timeline,
  };
}

class Timeline extends TimelineFrame {
  acts() {
    return {
      search: (text) => search(this, text),
      step: (by) => stepFound(this, by),
      filter: (word) => {
        this.tools.search.value = this.tools.search.value === word ? "" : word;
        search(this, this.tools.search.value);
      },
      critical: () => toggleCritical(this),
      measure: () => this.toggleMeasuring(),
      unit: (unit) => {
        this.setUnit(unit);
        this.callbacks.unit?.(unit);
      },
      zoom: (factor) => this.zoom(factor),
      whole: () => this.setWindow({ begin: 0, end: this.whole }),
    };
  }

  listen() {
    const { head, minimap, over } = this.canvases;
    const x = (event, target) => event.clientX - target.getBoundingClientRect().left;
    const place = (event) => ({ moment: this.momentAt(x(event, over)), y: event.clientY - over.getBoundingClientRect().top });
    useHands(over, place, this.hands(), this.signal);
    const ruler = (from, to, event, done) => {
      if (Math.abs(from - to) * this.scale > REACH) this.measure(from, to, this.data.lanes.map(({ number }) => number), event.altKey, done);
    };
    useStrip(head, (event) => this.momentAt(x(event, head)), ruler, this.signal);
    head.addEventListener("dblclick", (event) => openLaunch(this, this.momentAt(x(event, head))), { signal: this.signal });
    const ofRun = (event) => (x(event, minimap) / this.width) * this.whole;
    useStrip(minimap, ofRun, (_, moment) => this.centre(moment), this.signal);
    onKeys(this.root, this.keys(), this.signal);
  }

  hands() {
    return {
      isMeasuring: () => this.measuring,
      hasFocus: () => document.activeElement === this.canvases.over || this.root.getRootNode().activeElement === this.canvases.over,
      pan: (pixels) => this.setWindow(pannedWithin(this.window, pixels / this.scale, this.whole)),
      zoom: (factor, { moment }) => this.setWindow(zoomed(this.window, factor, moment)),
      hover: (at) => this.hover(at),
      leave: () => this.hover(null),
      click: (at) => this.click(at),
      open: () => showSelected(this),
      area: (from, to, { free, done }) => {
        const [low, high] = [Math.min(from.y, to.y), Math.max(from.y, to.y)];
        const rows = this.rows.filter((row) => row.lanes && row.top < high && row.top + row.height > low);
        const lanes = rows.flatMap((row) => row.lanes.map(({ number }) => number));
        if (lanes.length) this.measure(from.moment, to.moment, lanes, free, done);
      },
    };
  }

  keys() {
    const pan = (part) => () => this.setWindow(pannedWithin(this.window, part * (this.window.end - this.window.begin), this.whole));
    const [closer, wider] = [() => this.zoom(0.5), () => this.zoom(2)];
    return {
      ArrowLeft: () => stepSpan(this, -1), ArrowRight: () => stepSpan(this, 1),
      ArrowUp: () => stepLane(this, -1), ArrowDown: () => stepLane(this, 1),
      a: pan(-PAN_PART), d: pan(PAN_PART), w: closer, s: wider, "+": closer, "Shift++": closer, "=": closer, "-": wider,
      0: () => this.setWindow({ begin: 0, end: this.whole }),
      Home: pan(-Infinity), End: pan(Infinity), PageUp: pan(-1), PageDown: pan(1),
      f: () => showSelected(this), b: () => goToBlocker(this), g: () => gapBefore(this), c: () => toggleCritical(this),
      n: () => stepFound(this, 1), p: () => stepFound(this, -1),
      "/": () => this.tools.search.focus(), "Shift+/": () => this.tools.search.focus(),
      Escape: () => this.letGo(),
    };
  }

  setWindow(window, tells = true) {
    this.window = held(window.begin, window.end, this.whole, LEAST_CYCLES);
    this.paintSoon();
    if (tells) this.callbacks.window?.(this.window.begin, this.window.end);
  }

  /** Centres the view on a moment, with the same length of time. */
  centre(moment) {
    const half = (this.window.end - this.window.begin) / 2;
    this.setWindow({ begin: moment - half, end: moment + half });
  }

  zoom(factor) {
    const { span } = this.seen;
    const middle = (this.window.begin + this.window.end) / 2;
    const at = span >= 0 ? (this.data.start[span] + this.data.end[span]) / 2 : middle;
    this.setWindow(zoomed(this.window, factor, at >= this.window.begin && at <= this.window.end ? at : middle));
  }

  setUnit(unit) {
    this.clock.unit = unit;
    this.unitName.textContent = unit;
    this.tools.units.value = unit;
    this.tell();
    this.paintSoon();
  }

  // What is picked

  hover(at) {
    this.setCursor(at && at.moment <= this.data.header.makespan ? Math.floor(at.moment) : null);
    if (at) this.callbacks.cursor?.(this.seen.cursor);
    const row = at && rowAt(this.rows, at.y);
    const text = row?.kind === "lane" ? this.lineAt(row.lanes[0].number, at.moment) : "";
    this.tip.hidden = !text;
    if (!text) return;
    this.tip.textContent = text;
    const x = (at.moment - this.window.begin) * this.scale;
    const side = x > this.width / 2 ? { right: `${this.width - x + 12}px`, left: "auto" } : { left: `${x + 12}px`, right: "auto" };
    Object.assign(this.tip.style, side, { top: `${row.top + row.height}px` });
  }

  lineAt(lane, moment) {
    const span = this.data.spanAt(lane, moment);
    if (span >= 0 && !this.data.isWaiting(span, moment)) return spanLine(this.data, span, this.clock);
    const gap = this.data.gap(lane, Math.floor(moment));
    return gap ? gapLine(this.data, gap, this.clock) : "";
  }

  setCursor(cycle) {
    this.seen.cursor = cycle;
    this.overSoon();
  }

  click({ moment, y }) {
    const row = rowAt(this.rows, y);
    this.canvases.over.focus({ preventScroll: true });
    if (row?.kind !== "lane" || moment > this.data.header.makespan) {
      this.letGo();
      return;
    }
    const lane = row.lanes[0].number;
    const near = this.spanNear(lane, moment);
    if (near >= 0 && !this.data.isWaiting(near, moment)) this.pick(near, "click");
    else this.pickGap(this.data.gap(lane, Math.floor(moment)), Math.floor(moment));
  }

  /** The span at a moment, or a nearby span that is too narrow to hit. */
  spanNear(lane, moment) {
    const span = this.data.spanAt(lane, moment);
    if (span >= 0) return span;
    const lanes = this.data.held[lane];
    const after = lanes.pieceAt(moment);
    const reach = 2 / this.scale;
    if (after < lanes.last && this.data.start[after] - moment < reach) return after;
    return after > lanes.first && moment - this.data.end[after - 1] < reach ? after - 1 : -1;
  }

  pick(span, how) {
    this.mark([this.data.row[span]], how);
  }

  /** The cycle in which the first marked span begins; null if none is marked. */
  beginOfMarked() {
    const begins = (this.marked ?? []).map((row) => this.data.start[this.data.spanOf(row)]);
    return begins.length ? begins.reduce((first, each) => Math.min(first, each)) : null;
  }

  /** Marks spans by their rows; `how` is null if the selection was made elsewhere. */
  mark(rows, how) {
    const same = rows.length === this.marked?.length && rows.every((row, place) => row === this.marked[place]);
    if (same && how === null) return;
    this.marked = [...rows];
    const [one] = rows;
    Object.assign(this.seen, { span: rows.length === 1 ? this.data.spanOf(one) : -1, area: null, gap: null, arrows: [] });
    this.filters.selected = rows.length > 1 ? this.data.marksOf(rows) : null;
    this.refilter();
    if (this.seen.span >= 0) {
      bringIntoView(this, this.seen.span);
      this.findArrows();
      this.findReasons();
    }
    this.tell();
    if (how) this.callbacks.select?.([...rows], how);
  }

  pickGap(gap, cycle) {
    if (!gap) return;
    Object.assign(this.seen, { span: -1, area: null, gap, arrows: [] });
    this.tell();
    this.callbacks.gap?.(this.data.lanes[gap.lane].name, cycle)?.then((found) => {
      if (this.seen.gap !== gap || !found) return;
      Object.assign(gap, { findings: found.findings, note: found.note });
      this.tell();
    });
  }

  measure(from, to, lanes, free, done) {
    const reach = free ? 0 : REACH / this.scale;
    const all = lanes.flatMap((lane) => [this.data.held[lane], this.data.busy[lane]]);
    const [one, other] = [from, to].map((moment) => snapped(moment, reach, all));
    const [begin, end] = [Math.max(Math.min(one, other), 0), Math.min(Math.max(one, other), this.data.header.makespan)];
    if (end <= begin) return;
    Object.assign(this.seen, { span: -1, gap: null, arrows: [], area: { begin, end, lanes } });
    this.overSoon();
    this.tell();
    if (done) this.callbacks.area?.(begin, end, lanes.map((lane) => this.data.lanes[lane].name));
  }

  letGo() {
    this.mark([], "click");
  }

  /** Describes the picked span, area or idle time. */
  tell() {
    const { seen, data, clock, told } = this;
    const goTo = (span) => this.pick(span, "link");
    if (seen.area) tellArea(told, data, seen.area, clock);
    else if (seen.gap) tellGap(told, data, seen.gap, { clock, goTo });
    else if (seen.span >= 0) {
      const slack = this.waits?.slack[data.row[seen.span]];
      const waits = this.waits && this.waitsOf(seen.span);
      const reasons = seen.reasons?.span === seen.span ? seen.reasons.findings : [];
      tellSpan(told, data, seen.span, { clock, slack, waits, reasons, goTo });
    } else tellNothing(told, data);
    this.overSoon();
  }

  /** Asks for the findings of the span, which may take a while the first time. */
  async findReasons() {
    const { span } = this.seen;
    const found = await this.callbacks.about?.(this.data.row[span]);
    if (this.seen.span !== span || !found?.findings?.length) return;
    this.seen.reasons = { span, findings: found.findings };
    this.tell();
  }

  // Dependences

  async findArrows() {
    const { span } = this.seen;
    this.waits ??= await this.ask("dependences");
    if (!this.waits || this.seen.span !== span) return;
    const { into, out } = this.waitsOf(span);
    this.seen.arrows = [
      ...into.map(({ span: from, room }) => ({ from, to: span, room })),
      ...out.map(({ span: to, room }) => ({ from: span, to, room })),
    ];
    this.tell();
  }

  async ask(what) {
    const block = await this.callbacks.more?.(what);
    return block ? columnsOf(block) : null;
  }

  /** The spans for which a span waits, and those that wait for it, the tightest first. */
  waitsOf(span) {
    const { waits, data } = this;
    const row = data.row[span];
    const upTo = (first) => Array.from({ length: first[row + 1] - first[row] }, (_, place) => first[row] + place);
    const tightest = (edges, ends) => edges
      .map((edge) => ({ span: data.spanOf(ends[edge]), room: waits.room[edge] }))
      .sort((one, other) => one.room - other.room);
    return {
      into: tightest(upTo(waits.in_first), waits.earlier),
      out: tightest(upTo(waits.out_first).map((place) => waits.out[place]), waits.later),
    };
  }

  // Faint spans

  /** Marks the spans that pass all filters: a search, the critical path, a selection made elsewhere. All others are
   *  faint. */
  refilter() {
    const asked = Object.values(this.filters).filter(Boolean);
    const before = this.filtered ?? [];
    if (asked.length === before.length && asked.every((each, place) => each === before[place])) {
      this.overSoon();
      return;
    }
    this.filtered = asked;
    const [first, ...more] = asked;
    const marked = first && more.length ? first.map((own, span) => own && more.every((each) => each[span])) : first;
    this.data.mark(marked ?? null);
    if (!this.width) return;
    this.paintWhole();
    this.paintSoon();
  }

  toggleMeasuring() {
    this.measuring = !this.measuring;
    this.tools.measure.setAttribute("aria-pressed", String(this.measuring));
    this.root.classList.toggle("tl-measuring", this.measuring);
  }
}
