// The scratchpad and the tiles of a run, cycle by cycle: one clock for both, to scrub, step and play.

import { colourOf, coloursOf } from "./canvas.js";
import { atEnd, clamped, element, grouped, legendOf, onKeys, oncePerFrame, watchTheme } from "./common.js";
import { makeMemoryControls } from "./memory_controls.js";
import { ReplayData } from "./memory_data.js";
import { ScratchpadMap } from "./memory_scratchpad.js";
import { fillMemoryTable } from "./memory_table.js";
import { TileGrids } from "./memory_tiles.js";
import { TEXTURES, textured } from "./timeline_paint.js";

const MEMORY_LAUNCHES = 8;
const ROLE_KINDS = ["LOAD", "STORE", "COPY"]; // the colours and lines of the roles, as in the static picture
const INSIDE_LINES = [[3, 0, 3, 6]];
const SIGNS = "→ writes, reads →; in a tile: the number of its first move, then (1/3x): one of its three moves so " +
  "far; 1/3 alone where there is no room for both";
const NOT_READ_PALE = 0.35; // as in the static picture: style.HELD
const PLAY_CHANGE_SECONDS = 0.4; // seconds for each change, if playing goes from change to change
let palettesMade = 0;

/** Draws the run in `host`. `link.ask` answers `open`, `launch`, `buffer` and `tile`; `moveCursor(cycle, done)` is
 *  called when the user scrubs, steps or plays; `spans()` returns the selected spans of the run, and `begin()` the
 *  first cycle to show. Returns a view of the lab: `cursor(cycle)` moves it, `selected()` marks the selection again. */
export function createMemory(host, { link, signal, moveCursor = () => {}, spans = () => [], begin = () => 0 }) {
  const made = new Memory(host, { link, signal, moveCursor, spans, begin });
  return {
    cursor: (cycle) => cycle !== null && made.follow(cycle),
    selected: () => made.mark(),
    shown: () => made.mark(),
    memory: made,
  };
}

class Memory {
  constructor(host, { link, signal, moveCursor, spans, begin }) {
    Object.assign(this, { host, link, signal, moveCursor, spans, cycle: begin(), data: null, run: null, playing: 0, wanted: -1 });
    this.launches = new Map();
    this.asking = -1;
    this.build();
    this.paintSoon = oncePerFrame(() => this.paint(), signal);
    watchTheme(() => this.setTheme(), signal);
    atEnd(signal, () => this.end());
    this.open();
  }

  build() {
    const acts = {
      play: () => (this.playing ? this.pause() : this.play()),
      step: (by) => this.step(by),
      scrub: (cycle, done) => this.goTo(cycle, done),
      launch: (launch) => this.goTo(this.run.launches[launch][0], true),
      near: (near) => {
        this.map.near = near;
        this.paintSoon();
      },
    };
    this.controls = makeMemoryControls(acts);
    this.said = element("p", { class: "mem-said" });
    const left = element("section", { class: "mem-half", "aria-label": "scratchpad" });
    const right = element("section", { class: "mem-half", "aria-label": "tiles" });
    this.map = new ScratchpadMap(left, {
      scrub: (cycle, done) => this.goTo(cycle + this.data.header.begin, done),
      pick: (slot) => this.link.ask("buffer", { launch: this.launch, number: this.data.header.slots[slot].number }),
      signal: this.signal,
    });
    this.grids = new TileGrids(right, {
      pick: (place) => this.link.ask("tile", { launch: this.launch, touch: this.data.touchOf(place, this.data.now.cycle) }),
      signal: this.signal,
    });
    this.map.changed = this.grids.changed = () => this.paintSoon();
    this.legend = element("div", { class: "legend mem-legend" });
    this.tableBody = element("div", {});
    this.table = element("details", { class: "mem-table", ontoggle: () => this.paintSoon() },
      element("summary", {}, "This cycle as a table"), this.tableBody);
    const halves = element("div", { class: "mem-halves" }, left, right);
    this.root = element("div", { class: "mem" }, this.controls.root, this.said, halves, this.legend, this.table);
    this.host.append(this.root);
    const pick = () => this.map.at >= 0 && this.map.pick(this.map.at);
    const slots = { ArrowUp: () => this.map.move(-1), ArrowDown: () => this.map.move(1), Enter: pick };
    onKeys(this.map.canvas, slots, this.signal);
    const [back, on] = [() => this.step(-1), () => this.step(1)];
    const times = { ArrowLeft: back, "Shift+ArrowLeft": back, ArrowRight: on, "Shift+ArrowRight": on, " ": acts.play };
    onKeys(halves, times, this.signal);
  }

  async open() {
    const found = await this.link.ask("open");
    if (!found || this.signal.aborted) return;
    this.run = found.answer;
    if (!this.run.launches.length) {
      this.said.textContent = "No kernel ran, so the scratchpad was empty.";
      this.root.replaceChildren(this.said);
      return;
    }
    this.controls.open(this.run);
    this.show(this.cycle);
  }

  /** The launch that began last; between two launches the first of them, as in launch_replay.py. */
  launchAt(cycle) {
    const after = this.run.launches.findIndex(([begin]) => begin > cycle);
    return Math.max(0, (after < 0 ? this.run.launches.length : after) - 1);
  }

  // Where it stands

  /** Goes to a cycle that the user chose in this view. */
  goTo(cycle, done) {
    if (!this.run) return;
    this.pause();
    this.show(cycle);
    this.moveCursor(this.cycle, done);
  }

  /** Follows the cursor, which was moved elsewhere. */
  follow(cycle) {
    this.stop();
    if (this.run) this.show(cycle);
    else this.cycle = cycle;
  }

  show(cycle) {
    this.cycle = clamped(Math.round(cycle), 0, this.run.cycles);
    this.need(this.launchAt(this.cycle));
    this.paintSoon();
  }

  /** Shows a launch, for which Python is asked once; while Python answers, only the latest request is kept. */
  async need(launch) {
    this.wanted = launch;
    const known = this.launches.get(launch);
    if (known) {
      this.take(launch, known);
      return;
    }
    if (this.asking >= 0) return;
    this.asking = launch;
    this.said.textContent = `${this.run.kernels[launch]} is being read…`;
    const found = await this.link.ask("launch", { launch });
    this.asking = -1;
    if (this.signal.aborted) return;
    if (found) {
      this.launches.set(launch, new ReplayData({ header: found.answer.header, data: found.buffers[0] }));
      while (this.launches.size > MEMORY_LAUNCHES) this.launches.delete(this.launches.keys().next().value);
    }
    if (this.wanted !== launch) this.need(this.wanted);
    else if (found) this.take(launch, this.launches.get(launch));
    else this.said.textContent = "";
  }

  take(launch, data) {
    if (this.data === data) return;
    this.launches.delete(launch);
    this.launches.set(launch, data); // the most recently used launch is last
    this.launch = launch;
    this.data = data;
    data.mark(this.spans());
    this.map.show(data);
    this.grids.show(data);
    this.controls.show(launch, data);
    this.fillLegend();
    this.paintSoon();
  }

  mark() {
    this.data?.mark(this.spans());
    this.paintSoon();
  }

  // Playing

  step(by) {
    if (!this.data) return;
    this.goTo(this.data.header.begin + this.data.change(this.here, by), true);
  }

  /** The cycle counted from the launch's begin: below zero before it begins. */
  get here() {
    return this.cycle - this.data.header.begin;
  }

  play() {
    if (!this.data) return;
    if (this.cycle >= this.data.header.end) this.show(this.data.header.begin);
    let before = performance.now();
    let exact = this.cycle;
    const frame = (time) => {
      const { begin, end } = this.data.header;
      const seconds = this.controls.seconds;
      const passed = (time - before) / 1e3;
      if (seconds || passed >= PLAY_CHANGE_SECONDS) {
        exact = seconds ? exact + (passed / seconds) * (end - begin) : begin + this.data.change(this.here, 1);
        before = time;
        this.show(Math.min(exact, end));
        this.moveCursor(this.cycle, false);
      }
      const hidden = this.root.offsetParent === null; // hidden: another view is shown, or the cell is out of sight
      if (this.cycle >= end || hidden) this.pause();
      else this.playing = requestAnimationFrame(frame);
    };
    this.playing = requestAnimationFrame(frame);
    this.controls.playing(true);
  }

  pause() {
    if (this.stop()) this.moveCursor(this.cycle, true);
  }

  /** Stops playing; returns true if it was playing. */
  stop() {
    if (!this.playing) return false;
    cancelAnimationFrame(this.playing);
    this.playing = 0;
    this.controls.playing(false);
    return true;
  }

  // What is seen

  setTheme() {
    this.palette = null;
    this.fillLegend();
    this.paintSoon();
  }

  paint() {
    if (!this.data || !this.map.width) return;
    this.palette ??= memoryPalette(this.root);
    const now = this.data.at(this.here);
    this.controls.at(this.cycle);
    this.map.paint(this.here, this.palette);
    this.grids.paint(this.here, this.palette);
    this.said.textContent = this.summary(now);
    if (this.table.open) fillMemoryTable(this.tableBody, this.data, { picks: this.run.selects, pick: this.map.pick });
  }

  /** The line that Python's Moment has. */
  summary(now) {
    const { data, cycle } = this;
    const { begin, end, kernel, capacity } = data.header;
    const busy = now.working.map((row) => data.named(row)).join(", ") || "no instruction";
    let work = `${kernel}: ${busy} at work`;
    if (cycle < begin) work = `${kernel} begins in cycle ${grouped(begin)}`;
    else if (cycle >= end) work = `${kernel} ended in cycle ${grouped(end)}`;
    const share = Math.floor((100 * now.bytes) / Math.max(capacity, 1));
    const told = now.bytes && !share ? "<1%" : `${share}%`;
    const where = new Set(data.header.slots.map(({ core }) => core)).size > 1 ? " of the fullest core" : "";
    return `cycle ${grouped(cycle)}, ${work}; ${grouped(now.bytes)} of ${grouped(capacity)} bytes${where} hold something (${told})`;
  }

  fillLegend() {
    if (!this.data) return;
    this.palette ??= memoryPalette(this.root);
    const { roles, words } = this.data.header;
    const used = [...new Set(this.data.life_role)].sort();
    const ground = (role) => `background:${this.palette.roles[role].colour}`;
    const marks = legendOf([
      ...used.map((role) => [{ style: ground(role) }, words[roles[role]]]),
      [{ style: `${ground(used[0] ?? 0)};opacity:${this.palette.pale}` }, "not read yet"],
      [{ style: "border:3px solid var(--ink)" }, "moved now"],
      [{ style: "border:1.5px dashed var(--ink)" }, "read or written by work now"],
    ]);
    this.legend.replaceChildren(...marks.children, element("span", { class: "soft" }, SIGNS));
  }

  end() {
    cancelAnimationFrame(this.playing);
    this.map.destroy();
    this.grids.destroy();
    this.launches.clear();
    this.root.remove();
    this.data = this.run = this.palette = null;
  }
}

/** The colours of the page's theme. */
function memoryPalette(root) {
  const context = new OffscreenCanvas(1, 1).getContext("2d");
  const theme = coloursOf(root, ["ground", "ink", "soft", "line", "faint", "accent", "mark", "k-LOAD"]);
  const filled = (colour, lines) =>
    ({ colour, fill: context.createPattern(textured(colour, theme.ground, lines), "repeat") });
  const roles = ROLE_KINDS.map((kind) => filled(colourOf(root, `k-${kind}`), TEXTURES[kind]));
  roles.push(filled(colourOf(root, "h7"), INSIDE_LINES));
  return { ...theme, number: ++palettesMade, roles, tile: theme["k-LOAD"], pale: NOT_READ_PALE };
}
