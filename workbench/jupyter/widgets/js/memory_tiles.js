// The tensors of one launch as grids of tiles: which tiles are moved or touched now, which were before, and how often.

import { CANVAS_FONT, fillBox, frameBox, sizedContext, writeText } from "./canvas.js";
import { clamped, element, grouped, onKeys, watchSize } from "./common.js";
import { TOUCH_READS, TOUCH_WRITES } from "./memory_data.js";
import { counted } from "./timeline_words.js";

const GRID_EDGE = 4; // pixels around a tensor, for lines that lie on its border
const GRID_TRAIL = 8; // moves
const GRID_APART = 18; // pixels between tensors
const GRID_LEAST_WIDTH = 140; // of a tensor with its words
const GRID_SCALES = [1, 0.9, 0.8, 0.7, 0.6]; // of Python's sizes
const GRID_SEVERAL_ROWS = 0.7;
const GRID_WEAKEST = 0.12; // of its colour has the tile moved first: as in tile_grids.py
const GRID_STRONGEST = 0.62; // the one moved last
const GRID_LEAST_LINE = 5; // pixels of a tile's sides, with lines between tiles
const GRID_LEAST_WORDS = 11; // of its height, with text

/** All grids of a launch side by side. `pick(place)` is called for the tile that the user presses. */
export class TileGrids {
  constructor(host, { pick, signal }) {
    Object.assign(this, { pick, signal, data: null, parts: [] });
    this.holder = element("div", { class: "mem-grids" });
    this.told = element("p", { class: "mem-told soft" });
    host.append(this.holder, this.told);
    watchSize(this.holder, (width) => this.resize(Math.floor(width)), signal);
  }

  /** Arranges the tensors side by side, as large as the width allows. */
  resize(width) {
    if (width === this.width) return;
    this.width = width;
    if (this.data && this.scaleOf() !== this.scale) this.show(this.data);
    this.changed?.();
  }

  /** The largest of a few sizes at which all tensors fit in one row; if there is none, they take several rows. */
  scaleOf() {
    const { grids } = this.data.header;
    const room = (this.width ?? Infinity) - GRID_APART * (grids.length - 1) - 2;
    const wide = (scale) => grids.reduce((sum, { width }) => sum + Math.max(width * scale + 2 * GRID_EDGE, GRID_LEAST_WIDTH), 0);
    return GRID_SCALES.find((scale) => wide(scale) <= room) ?? GRID_SEVERAL_ROWS;
  }

  show(data) {
    this.life?.abort();
    this.life = new AbortController();
    this.data = data;
    this.hinted = null;
    this.scale = this.scaleOf();
    this.parts = data.header.grids.map((about, number) => this.part(about, number));
    this.holder.replaceChildren(...this.parts.map(({ root }) => root));
    this.told.textContent = data.header.note || (this.parts.length ? "" : "The kernel moves nothing between DRAM and the scratchpad.");
  }

  part(about, number) {
    const canvas = element("canvas", { role: "img", tabindex: "0" });
    const [width, height] = [about.width, about.height].map((side) => Math.round(side * this.scale));
    sizedContext(canvas, width, height, GRID_EDGE);
    const reuse = element("div", {});
    const root = element(
      "figure",
      { class: "mem-grid", style: `width:${Math.max(width + 2 * GRID_EDGE, GRID_LEAST_WIDTH)}px` },
      element("figcaption", {}, element("b", {}, about.tensor), element("span", { class: "soft" }, ` ${about.access}`)),
      canvas,
      reuse,
      element("div", { class: "soft" }, ...about.caption.map((line) => element("div", {}, line))),
    );
    const made = { root, canvas, reuse, number, about, width, height, at: -1 };
    this.listen(made);
    return made;
  }

  listen(part) {
    const { canvas } = part;
    const on = (kind, listen) => canvas.addEventListener(kind, listen, { signal: this.life.signal });
    const placeAt = (event) => {
      const box = canvas.getBoundingClientRect();
      return this.placeAt(part, event.clientX - box.left - GRID_EDGE, event.clientY - box.top - GRID_EDGE);
    };
    on("click", (event) => {
      const place = placeAt(event);
      if (place >= 0) this.pick(place);
    });
    on("pointermove", (event) => this.tell(part, placeAt(event)));
    on("pointerleave", () => this.tell(part, -1));
    for (const kind of ["focus", "blur"]) on(kind, () => this.changed?.());
    const step = (by) => () => {
      const order = this.tilesInOrder(part);
      part.at = order[clamped(order.indexOf(part.at) + by, 0, order.length - 1)] ?? -1;
      this.tell(part, part.at);
      this.changed?.();
    };
    const actions = { ArrowRight: step(1), ArrowDown: step(1), ArrowLeft: step(-1), ArrowUp: step(-1) };
    onKeys(canvas, { ...actions, Enter: () => part.at >= 0 && this.pick(part.at) }, this.life.signal);
  }

  tilesInOrder({ number }) {
    const { data } = this;
    const tiles = data.placesOf[number].filter((place) => data.place_moves[place]);
    return tiles.sort((one, other) => data.place_first[one] - data.place_first[other]);
  }

  /** The tile at a point; the smallest if there are several. */
  placeAt({ number, about, width, height }, x, y) {
    const { data } = this;
    const [row, column] = [(y / height) * about.rows, (x / width) * about.columns];
    const size = (place) => (data.place_bottom[place] - data.place_top[place]) * (data.place_right[place] - data.place_left[place]);
    let found = -1;
    for (const place of data.placesOf[number]) {
      const inside =
        data.place_top[place] <= row && row < data.place_bottom[place] && data.place_left[place] <= column && column < data.place_right[place];
      if (inside && data.place_moves[place] && (found < 0 || size(place) < size(found))) found = place;
    }
    return found;
  }

  /** Shows where a tile lies and how often it has been moved. */
  tell({ about }, place) {
    this.hinted = place < 0 ? null : { about, place };
    this.tellNow();
  }

  tellNow() {
    if (!this.hinted || !this.data) {
      this.told.textContent = this.data?.header.note ?? "";
      return;
    }
    const { about, place } = this.hinted;
    const { data } = this;
    const side = (axis, from, to) => (axis < 0 ? [] : [`axis ${axis} from ${grouped(from)} to ${grouped(to)}`]);
    const where = [
      ...side(about.axes[0], data.place_top[place], data.place_bottom[place]),
      ...side(about.axes[1], data.place_left[place], data.place_right[place]),
    ];
    const moves = `moved ${data.now.moved[place]} of ${counted(data.place_moves[place], "time")}, the first is move ${data.place_first[place]}`;
    this.told.textContent = `${about.tensor}, ${where.join(", ")}: ${moves}`;
  }

  paint(cycle, palette) {
    if (!this.data) return;
    const now = this.data.at(cycle);
    for (const part of this.parts) this.paintPart(part, now, palette);
    this.tellNow();
  }

  paintPart(part, now, palette) {
    const { data } = this;
    const context = part.canvas.getContext("2d");
    context.clearRect(-GRID_EDGE, -GRID_EDGE, part.width + 2 * GRID_EDGE, part.height + 2 * GRID_EDGE);
    context.font = CANVAS_FONT;
    const moved = data.placesOf[part.number].filter((place) => data.place_moves[place]);
    for (const place of moved) this.paintTile(context, part, place, now, palette);
    this.paintTrail(context, part, now, palette);
    for (const place of moved) this.writeTile(context, part, place, now, palette);
    for (const place of data.placesOf[part.number]) this.paintState(context, part, place, now, palette);
    frameBox(context, palette.soft, 1, 0, 0, part.width, part.height);
    const sums = data.soFar(part.number, now);
    const each = timesEach(sums.moved, sums.visited);
    const told = `${sums.visited} of ${counted(sums.tiles, "tile")} moved so far${each && `, each ${each}`} (${sums.moved} of ${counted(sums.moves, "move")})`;
    if (part.reuse.textContent !== told) part.reuse.textContent = told;
    part.canvas.setAttribute("aria-label", `${part.about.tensor}: ${told}; arrow keys go from tile to tile, Enter selects`);
  }

  /** The rank of each tile in the order of the first moves, from 0 to 1. */
  ranksOf(part) {
    if (!part.ranks) {
      const order = this.tilesInOrder(part);
      part.ranks = new Map(order.map((place, rank) => [place, rank / Math.max(order.length - 1, 1)]));
    }
    return part.ranks;
  }

  boxOf({ about, width, height }, place) {
    const { data } = this;
    const [across, down] = [width / Math.max(about.columns, 1), height / Math.max(about.rows, 1)];
    const [left, top] = [data.place_left[place] * across, data.place_top[place] * down];
    return { left, top, wide: data.place_right[place] * across - left, high: data.place_bottom[place] * down - top };
  }

  paintTile(context, part, place, now, palette) {
    const { left, top, wide, high } = this.boxOf(part, place);
    if (now.moved[place]) {
      const strength = GRID_WEAKEST + (GRID_STRONGEST - GRID_WEAKEST) * this.ranksOf(part).get(place);
      fillBox(context, palette.tile, left, top, Math.max(wide, 0.5), Math.max(high, 0.5), strength);
    }
    if (this.data.marks?.places[place]) fillBox(context, palette.mark, left, top, wide, high, 0.55);
    if (Math.min(wide, high) <= GRID_LEAST_LINE) return;
    frameBox(context, now.moved[place] ? palette.ground : palette.line, 1, left + 0.5, top + 0.5, wide - 1, high - 1);
  }

  /** Writes the number of the tile's first move, and the number of its moves, if there is room. */
  writeTile(context, part, place, now, palette) {
    const { data } = this;
    const { left, top, wide, high } = this.boxOf(part, place);
    if (high < GRID_LEAST_WORDS) return;
    const [moves, moved] = [data.place_moves[place], now.moved[place]];
    const words = moves > 1 ? `${moved}/${moves}` : `${data.place_first[place]}`;
    const both = `${data.place_first[place]} (${words}x)`;
    const text = (moves > 1 ? [both, words] : [words]).find((each) => context.measureText(each).width + (each === both ? 10 : 3) <= wide);
    if (!text) return;
    context.lineWidth = 3;
    context.lineJoin = "round";
    context.strokeStyle = palette.ground;
    context.globalAlpha = 0.75;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.strokeText(text, left + wide / 2, top + high / 2);
    context.globalAlpha = 1;
    writeText(context, text, left + wide / 2, top + high / 2, moved ? palette.ink : palette.soft, "center");
  }

  /** A line through the latest moves. */
  paintTrail(context, part, now, palette) {
    const centres = this.data.trail(part.number, now.cycle, GRID_TRAIL).map((place) => {
      const { left, top, wide, high } = this.boxOf(part, place);
      return [left + wide / 2, top + high / 2];
    });
    context.strokeStyle = palette.ink;
    context.lineWidth = 1.2;
    centres.forEach(([x, y], step) => {
      if (!step) return;
      context.globalAlpha = (0.6 * step) / centres.length;
      context.beginPath();
      context.moveTo(...centres[step - 1]);
      context.lineTo(x, y);
      context.stroke();
    });
    context.globalAlpha = 1;
  }

  /** Paints a tile's state: moved is a thick line, read or written by work a dashed line; a selected tile has a frame.
   *  */
  paintState(context, part, place, now, palette) {
    const { left, top, wide, high } = this.boxOf(part, place);
    const frame = (inset, line, colour, dashes) => {
      const sides = [wide, high].map((side) => Math.max(side - 2 * inset, 1));
      frameBox(context, colour, line, left + inset, top + inset, ...sides, dashes);
    };
    const access = now.access[place];
    if (now.moving[place]) frame(0.5, 3, palette.ink, []);
    else if (access & (TOUCH_READS | TOUCH_WRITES)) frame(0.5, 2, palette.ink, [5, 3]);
    if (this.data.marks?.places[place] && this.data.place_moves[place]) frame(3.5, 1.5, palette.accent, []);
    if (place === part.at && part.canvas.matches(":focus")) frame(1, 2, palette.accent, [2, 2]);
  }

  destroy() {
    this.life?.abort();
    for (const { canvas } of this.parts) canvas.width = canvas.height = 0;
    this.parts = [];
    this.data = null;
  }
}

/** How often tiles were moved on the average: `1.5 times`, `once`. */
function timesEach(moves, tiles) {
  if (!tiles) return "";
  return moves === tiles ? "once" : `${(moves / tiles).toLocaleString("en-US", { maximumFractionDigits: 2 })} times`;
}
