// The scratchpad of one launch: on the left the current contents of each slot and its readers and writers, on the right
// the slots over time.

import { CANVAS_FONT, fillBox, frameBox, sizedContext, writeText } from "./canvas.js";
import { clamped, element, grouped, watchSize } from "./common.js";
import { ticksBetween } from "./timeline_window.js";

const MEMORY_LETTER = 5.9; // pixels of a letter at 10.5 px, on the average
const MAP_FOOT = 20; // pixels below the slots, for cycles
const MAP_HEAD = 16; // above the slots of a core, where there are several
const MAP_NARROW = 520; // pixels
const MAP_STRETCH = 1.25; // of Python's heights, which leave room for a line of a picture's smaller text
const MAP_GAP = 10;
const MAP_FUTURE = 0.35; // of its colour has what comes after the cursor
const MAP_TICK = 84; // pixels, at least
const MAP_NEAR = 8; // times the length of an average life, of the time near the cursor
const MAP_LEAST_TEXT = 11; // pixels of a slot's height, with text in it

/** Calls `scrub(cycle, done)` for the time at the pointer, and `pick(slot)` for a pressed slot. */
export class ScratchpadMap {
  constructor(host, { scrub, pick, signal }) {
    Object.assign(this, { scrub, pick, signal, data: null, width: 0, near: false, at: -1 });
    this.canvas = element("canvas", { role: "img", tabindex: "0" });
    this.base = document.createElement("canvas");
    this.holder = element("div", { class: "mem-map" }, this.canvas);
    host.append(this.holder);
    watchSize(this.holder, (width) => this.resize(Math.floor(width)), signal);
    this.listen();
  }

  show(data) {
    this.data = data;
    this.at = -1;
    this.arrange();
  }

  resize(width) {
    if (width === this.width) return;
    this.width = width;
    this.arrange();
    this.changed?.();
  }

  /** Computes the layout; heights come from Python. */
  arrange() {
    if (!this.data || !this.width) return;
    const { slots, panels } = this.data.header;
    const narrow = this.width < MAP_NARROW;
    this.names = narrow ? 76 : 112;
    this.cell = narrow ? 96 : 138;
    this.chart = this.names + this.cell + MAP_GAP;
    const bottoms = new Map();
    let height = 2;
    for (const panel of panels) {
      height += (panels.length > 1 ? MAP_HEAD : 0) + panel.height * MAP_STRETCH;
      bottoms.set(panel.core, height);
    }
    this.boxes = slots.map((slot) => ({ top: bottoms.get(slot.core) - slot.high * MAP_STRETCH, height: (slot.high - slot.low) * MAP_STRETCH }));
    this.heads = panels.length > 1 ? panels.map(({ core, height: high }) => ({ core, y: bottoms.get(core) - high * MAP_STRETCH - MAP_HEAD / 2 })) : [];
    this.bottom = height;
    this.height = height + MAP_FOOT;
    for (const canvas of [this.canvas, this.base]) sizedContext(canvas, this.width, this.height);
    this.drawn = null;
  }

  /** The drawn stretch of time: the whole launch, or a few lives around the cursor. */
  window(cycle) {
    const { length } = this.data;
    const wide = this.near ? Math.min(length, Math.ceil(MAP_NEAR * this.data.averageLife)) : length;
    const begin = clamped(cycle - wide / 2, 0, length - wide);
    return { begin, end: Math.max(begin + wide, begin + 1) };
  }

  paint(cycle, palette) {
    if (!this.data || !this.width) return;
    const { data, width } = this;
    const now = data.at(cycle);
    const window = this.window(cycle);
    const context = this.canvas.getContext("2d");
    this.paintBase(window, palette);
    context.clearRect(0, 0, width, this.height);
    const x = Math.round(this.chart + this.x(clamped(cycle, window.begin, window.end), window));
    this.copy(context, this.chart, x, 1);
    this.copy(context, x, width, MAP_FUTURE);
    context.font = CANVAS_FONT;
    this.paintAxis(context, window, palette);
    for (const { core, y } of this.heads) writeText(context, `core ${core}`, 0, y, palette.ink);
    const shownNow = this.shownSlots(now);
    for (let slot = 0; slot < this.boxes.length; slot++) if (shownNow[slot]) this.paintSlot(context, slot, now, palette);
    fillBox(context, palette.accent, x, 0, 1.5, this.bottom + 4);
    this.canvas.setAttribute("aria-label", this.told(now));
  }

  /** The visible slots: if buffers share bytes, the slot that holds something hides the others. */
  shownSlots(now) {
    const { slots } = this.data.header;
    const overlaps = (one, other) =>
      one.core === other.core && one.address < other.address + other.bytes && other.address < one.address + one.bytes;
    return slots.map((slot, at) => {
      if (now.life[at] >= 0) return true;
      return !slots.some((other, place) => place !== at && (now.life[place] >= 0 || place < at) && overlaps(slot, other));
    });
  }

  x(cycle, { begin, end }) {
    return ((cycle - begin) / (end - begin)) * (this.width - this.chart);
  }

  momentAt(x, cycle) {
    const { begin, end } = this.window(cycle);
    const moment = begin + ((x - this.chart) / (this.width - this.chart)) * (end - begin);
    return Math.round(clamped(moment, 0, this.data.length));
  }

  copy(context, from, until, alpha) {
    if (until <= from) return;
    const ratio = this.base.width / this.width;
    const parts = [from, 0, until - from, this.bottom].map((each) => each * ratio);
    context.globalAlpha = alpha;
    context.drawImage(this.base, ...parts, from, 0, until - from, this.bottom);
    context.globalAlpha = 1;
  }

  /** All bars of the window, drawn once as long as it stays. */
  paintBase(window, palette) {
    const key = [window.begin, window.end, this.width, palette.number].join();
    if (this.drawn === key && this.drawnMarks === this.data.marks) return;
    this.drawn = key;
    this.drawnMarks = this.data.marks;
    const context = this.base.getContext("2d");
    context.clearRect(0, 0, this.width, this.height);
    this.boxes.forEach(({ top, height }, slot) => {
      fillBox(context, palette.faint, this.chart, top + height - 0.5, this.width - this.chart, 0.8);
      this.paintLives(context, slot, window, palette);
    });
  }

  paintLives(context, slot, window, palette) {
    const { data } = this;
    const { top, height } = this.boxes[slot];
    const inset = height > 6 ? 1 : 0;
    const bar = (from, until, life, alpha) => {
      const left = this.chart + Math.max(this.x(from, window), 0);
      const wide = Math.max(this.chart + this.x(until, window) - left, 0.6);
      fillBox(context, palette.roles[data.life_role[life]].fill, left, top + inset, wide, height - 2 * inset, alpha);
    };
    for (const life of data.livesOf[slot]) {
      const [start, read, end] = [data.life_start[life], data.life_read[life], data.life_end[life]];
      if (end <= window.begin || start >= window.end) continue;
      if (read > start) bar(start, read, life, palette.pale);
      if (end > read) bar(read, end, life, 1);
      const [left, right] = [this.chart + this.x(start, window), this.chart + this.x(end, window)];
      if (right - left > 3) fillBox(context, palette.ground, right - 0.6, top, 0.8, height);
      if (!data.marks?.lives[life]) continue;
      frameBox(context, palette.accent, 2, left + 1, top + 1.5, Math.max(right - left - 2, 1), Math.max(height - 3, 1));
    }
  }

  paintAxis(context, window, palette) {
    const { begin } = this.data.header;
    const room = this.width - this.chart;
    fillBox(context, palette.soft, this.chart, this.bottom, room, 0.8);
    for (const tick of ticksBetween(window.begin + begin, window.end + begin, room / MAP_TICK, 1)) {
      const x = this.chart + this.x(tick - begin, window);
      fillBox(context, palette.soft, Math.round(x), this.bottom, 1, 4);
      const text = grouped(tick);
      const half = context.measureText(text).width / 2;
      const middle = clamped(x, this.chart + half, this.width - half);
      writeText(context, text, middle, this.bottom + 12, palette.soft, "center");
    }
    writeText(context, "cycles", this.chart - MAP_GAP, this.bottom + 12, palette.soft, "right");
  }

  /** Paints a slot's name and contents: incoming data at the left edge, outgoing data at the right. */
  paintSlot(context, slot, now, palette) {
    const { data } = this;
    const { top, height } = this.boxes[slot];
    const life = now.life[slot];
    const [left, wide] = [this.names, this.cell];
    if (data.marks?.slots[slot]) fillBox(context, palette.mark, 0, top + 0.5, left - 4, height - 1);
    if (life >= 0) {
      const pale = now.cycle < data.life_read[life] ? palette.pale / 2 : palette.pale * 1.4;
      fillBox(context, palette.roles[data.life_role[life]].colour, left, top + 1, wide, height - 2, pale);
    }
    frameBox(context, palette.line, 1, left + 0.5, top + 1, wide - 1, height - 2);
    if (now.written[slot].length) fillBox(context, palette.accent, left - 1, top + 1, 4, height - 2);
    if (now.read[slot].length) fillBox(context, palette.accent, left + wide - 3, top + 1, 4, height - 2);
    if (slot === this.at && this.canvas.matches(":focus")) {
      frameBox(context, palette.accent, 2, 1, top + 1, left + wide - 2, height - 2);
    }
    if (height >= MAP_LEAST_TEXT) this.writeSlot(context, slot, now, top + height / 2, palette);
  }

  writeSlot(context, slot, now, middle, palette) {
    const { data } = this;
    const life = now.life[slot];
    const tensor = life < 0 ? "" : data.header.tensors[data.life_tensor[life]];
    const name = data.slotName(slot);
    const room = (this.names - 12) / MEMORY_LETTER - name.length;
    writeText(context, name, 2, middle, palette.soft);
    writeText(context, fittingText(tensor, room), this.names - 6, middle, palette.ink, "right");
    const [written, read] = [now.written[slot], now.read[slot]];
    const right = this.names + this.cell;
    const all = (this.cell - 14) / MEMORY_LETTER;
    const write = (text, x, align, colour = palette.ink) => writeText(context, text, x, middle, colour, align);
    if (written.length && written.join() === read.join()) {
      write(`→ ${data.namedShort(written, all - 4)} →`, (this.names + right) / 2, "center");
      return;
    }
    const part = written.length && read.length ? all / 2 : all;
    if (written.length) write(`→ ${data.namedShort(written, part - 2)}`, this.names + 7, "left");
    if (read.length) write(`${data.namedShort(read, part - 2)} →`, right - 7, "right");
    if (life < 0) write("empty", (this.names + right) / 2, "center", palette.soft);
  }

  told(now) {
    const held = this.data.header.slots.flatMap((_, slot) => {
      const life = now.life[slot];
      return life < 0 ? [] : [`${this.data.slotName(slot)} ${this.data.header.tensors[this.data.life_tensor[life]]}`];
    });
    return `scratchpad: ${held.join(", ") || "every slot is empty"}; up and down go from slot to slot, Enter selects`;
  }

  listen() {
    const on = (kind, listen) => this.canvas.addEventListener(kind, listen, { signal: this.signal });
    const place = (event) => {
      const box = this.canvas.getBoundingClientRect();
      return { x: event.clientX - box.left, y: event.clientY - box.top };
    };
    let dragging = false;
    on("pointerdown", (event) => {
      if (!this.data || !this.width) return;
      const { x, y } = place(event);
      if (x < this.chart) {
        const slot = this.slotAt(y);
        if (slot >= 0) this.pick(slot);
        return;
      }
      dragging = true;
      this.canvas.setPointerCapture(event.pointerId);
      this.scrub(this.momentAt(x, this.data.now.cycle), false);
    });
    on("pointermove", (event) => dragging && this.scrub(this.momentAt(place(event).x, this.data.now.cycle), false));
    on("pointerup", (event) => {
      if (dragging) this.scrub(this.momentAt(place(event).x, this.data.now.cycle), true);
      dragging = false;
    });
    on("pointercancel", () => (dragging = false));
    for (const kind of ["focus", "blur"]) on(kind, () => this.changed?.());
  }

  /** The slot at a height; if slots share bytes, the one that holds something. */
  slotAt(y) {
    const shown = this.shownSlots(this.data.now);
    return this.boxes.findIndex(({ top, height }, slot) => shown[slot] && y >= top && y < top + height);
  }

  /** Moves to the slot above or below. */
  move(by) {
    if (!this.data) return;
    const order = [...this.boxes.keys()].sort((one, other) => this.boxes[one].top - this.boxes[other].top);
    const place = order.indexOf(this.at);
    this.at = order[place < 0 ? 0 : clamped(place + by, 0, order.length - 1)];
    this.changed?.();
  }

  destroy() {
    this.canvas.width = this.canvas.height = this.base.width = this.base.height = 0;
    this.data = this.boxes = null;
    this.width = 0;
  }
}

/** A text cut at its front to `letters` letters, since long names begin alike. */
function fittingText(text, letters) {
  const room = Math.floor(letters);
  if (text.length <= room) return text;
  return room < 3 ? "" : `…${text.slice(text.length - room + 1)}`;
}
