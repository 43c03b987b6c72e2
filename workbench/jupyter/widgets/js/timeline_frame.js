// A timeline's frame: its elements, its rows from top to bottom, and the times at which its parts are drawn.

import { sizedContext } from "./canvas.js";
import { atEnd, button, element, oncePerFrame, watchSize, watchTheme } from "./common.js";
import { rowsOf } from "./timeline_layout.js";
import { paintGrid, paintHead, paintMinimap, paintOver } from "./timeline_over.js";
import { paintRows, paletteOf } from "./timeline_paint.js";
import { fillTable, makeKeys, makeLegend, makeTools, tellNothing } from "./timeline_panel.js";
import { Strips } from "./timeline_strip.js";
import { Clock, percent } from "./timeline_words.js";

const HEAD_HEIGHT = 42;
const MINIMAP_HEIGHT = 30;
const MANY_CHANNELS = 4;

/** The visible parts of a timeline. A subclass adds the pointer and the keys: `acts()` and `listen()`. */
export class TimelineFrame {
  constructor(host, data, callbacks) {
    Object.assign(this, { host, data, callbacks, life: new AbortController() });
    this.signal = this.life.signal;
    this.clock = new Clock(data.header);
    this.whole = Math.max(data.header.makespan, callbacks.whole ?? 0, 1); // the longest run of those beside each other
    this.window = { begin: 0, end: this.whole };
    this.seen = { span: -1, area: null, gap: null, cursor: null, arrows: [] };
    this.filters = { search: null, critical: null, selected: null };
    this.width = 0;
    this.measuring = false;
    this.folded = new Set(data.header.channels.count > MANY_CHANNELS ? ["memory"] : []);
    this.build();
    this.paintSoon = oncePerFrame(() => this.paint(), this.signal);
    this.overSoon = oncePerFrame(() => this.paintOver(), this.signal);
    this.tellSoon = oncePerFrame(() => this.fillTable(), this.signal);
    atEnd(this.signal, () => this.end());
    watchTheme(() => this.setTheme(), this.signal);
    watchSize(this.plot, (width) => this.resize(Math.floor(width)), this.signal);
  }

  build() {
    const { data } = this;
    const told = `timeline of ${data.header.spans} spans on ${data.lanes.length} units, ${data.header.makespan} cycles`;
    const hidden = () => element("canvas", { "aria-hidden": "true" });
    const [minimap, head, lanes] = [hidden(), hidden(), hidden()];
    const label = `${told}; arrow keys go from span to span`;
    const over = element("canvas", { role: "img", tabindex: "0", "aria-label": label });
    this.canvases = { minimap, head, lanes, over };
    this.thumb = element("div", { class: "tl-thumb" });
    this.tip = element("div", { class: "tl-tip", hidden: true, "aria-hidden": "true" });
    this.labels = element("div", { class: "tl-labels" });
    this.plot = element("div", { class: "tl-plot" }, lanes, over, this.tip);
    this.unitName = element("span", { class: "soft" }, this.clock.unit);
    this.tools = makeTools(data, this.acts());
    this.legend = element("div", {});
    this.told = element("div", { class: "tl-told", role: "status", "aria-live": "polite" });
    this.table = element("div", {});
    this.tableHolder = element("details", { class: "tl-table", ontoggle: () => this.fillTable() },
      element("summary", {}, "What is in view, as a table"), this.table);
    this.root = element(
      "div",
      { class: "wb-timeline" },
      this.tools.bar,
      element("div", { class: "tl-grid" },
        element("span", { class: "tl-side soft" }, "whole run"), element("div", { class: "tl-mini" }, minimap, this.thumb),
        element("span", { class: "tl-side" }, this.unitName), element("div", { class: "tl-head" }, head)),
      element("div", { class: "tl-grid tl-body" }, this.labels, this.plot),
      this.legend, this.told, element("div", { class: "tl-more" }, this.tableHolder, makeKeys()),
    );
    this.host.append(this.root);
    tellNothing(this.told, data);
    this.listen();
  }

  get scale() {
    return this.width / (this.window.end - this.window.begin);
  }

  momentAt(x) {
    return this.window.begin + x / this.scale;
  }

  resize(width) {
    if (width === this.width) return;
    this.width = width;
    if (!this.palette) this.setTheme();
    else this.arrange();
  }

  /** Lays the rows out again, after a new width or a folded core. */
  arrange() {
    Object.assign(this, rowsOf(this.data, this.folded));
    this.strips = new Strips(this.width);
    const sizes = { minimap: MINIMAP_HEIGHT, head: HEAD_HEIGHT, lanes: this.height, over: this.height };
    for (const [name, height] of Object.entries(sizes)) sizedContext(this.canvases[name], this.width, height);
    this.plot.style.height = `${this.height}px`;
    this.labels.replaceChildren(...this.rows.map((row) => this.label(row)));
    this.legend.replaceChildren(makeLegend(this.data, this.palette, this.acts()));
    this.paintWhole();
    this.paint(); // sizes come before a frame is drawn, so this frame has the picture already
  }

  label(row) {
    const busy = row.busy === undefined ? [] : [element("span", { class: "soft" }, ` ${percent(row.busy)}`)];
    const place = `top:${row.top}px;height:${row.kind === "head" ? row.height : row.bar}px`;
    if (row.kind !== "head") return element("div", { class: "tl-label", style: place }, row.label, ...busy);
    const fold = () => {
      if (!this.folded.delete(row.fold)) this.folded.add(row.fold);
      this.arrange();
    };
    const label = `${row.folded ? "unfold" : "fold"} ${row.label}: ${row.note}`;
    const text = `${row.folded ? "▸" : "▾"} ${row.label}`;
    const folding = button(text, fold, { class: "tl-fold", label, "aria-expanded": String(!row.folded) });
    folding.append(...busy);
    return element("div", { class: "tl-label", style: place }, folding);
  }

  setTheme() {
    if (!this.width) return;
    this.palette = paletteOf(this.root, this.data.header, this.canvases.lanes.getContext("2d"), this.clock);
    this.arrange();
  }

  paint() {
    if (!this.width) return;
    const { data, window, width, palette, clock } = this;
    const lanes = this.canvases.lanes.getContext("2d");
    lanes.clearRect(0, 0, width, this.height);
    paintGrid(lanes, data, window, { width, height: this.height }, palette, clock);
    paintRows(lanes, data, this.rows, window, this.strips, palette);
    paintHead(this.canvases.head.getContext("2d"), data, window, { width, height: HEAD_HEIGHT }, palette, clock);
    const part = (moment) => `${(100 * moment) / this.whole}%`;
    Object.assign(this.thumb.style, { left: part(window.begin), width: part(window.end - window.begin) });
    this.paintOver();
    this.tellSoon();
  }

  paintWhole() {
    const context = this.canvases.minimap.getContext("2d");
    const width = Math.max(1, Math.round((this.width * this.data.header.makespan) / this.whole));
    context.clearRect(0, 0, this.width, MINIMAP_HEIGHT);
    paintMinimap(context, this.data, { width, height: MINIMAP_HEIGHT }, this.palette);
  }

  paintOver() {
    if (!this.width) return;
    const { data, rows, window, width, height, palette, clock, seen } = this;
    paintOver(this.canvases.over.getContext("2d"), data, rows, window, { width, height }, palette, clock, seen);
  }

  fillTable() {
    if (this.tableHolder.open) fillTable(this.table, this.data, this.window, this.clock);
  }

  /** Removes the timeline from the page and releases its memory. */
  end() {
    this.root.remove();
    for (const canvas of Object.values(this.canvases)) canvas.width = canvas.height = 0;
    for (const name of ["data", "waits", "path", "filters", "filtered", "palette", "rows", "strips", "callbacks"]) this[name] = null;
    this.width = 0;
  }
}
