// Draws an array in one cycle, and its tiles over time.
import { elementStates } from "./array_data.js";
import { CANVAS_FONT, fillBox, frameBox, partsOf, sizedContext, writeText } from "./canvas.js";
import { clamped, grouped } from "./common.js";

const MOST_CELLS = 128; // a side; in larger arrays a cell stands for several elements
const ARRAY_SIDE = 264; // pixels
const GUTTER = 12; // pixels beside the array, for waiting rows and leaving sums
const TILE_ROW = 12;
const MOST_TILE_ROWS = 12;
const LINES_FROM = 6; // pixels of a cell, from which on lines separate the cells
export const TILE_LEFT = 34;
export const ARRAY_COLOURS = ["raised", "k-LOAD", "k-MATMUL", "k-VECTOR", "k-STORE", "line", "soft", "ink"];

export function paintArray(canvas, palette, walk, cycle) {
  const { rows, wide } = walk.header;
  const scale = ARRAY_SIDE / Math.max(rows, wide);
  const [width, height] = [wide * scale, rows * scale];
  const context = sizedContext(canvas, width + 2 * GUTTER, height + 2);
  const parts = ARRAY_COLOURS.slice(0, 4).map((name) => partsOf(palette[name])); // by the states of elements
  parts[1] = parts[1].map((each, place) => 0.35 * each + 0.65 * parts[0][place]);
  const block = Math.ceil(Math.max(rows, wide) / MOST_CELLS);
  const [down, across] = [Math.ceil(rows / block), Math.ceil(wide / block)];
  const small = new OffscreenCanvas(across, down);
  const image = new ImageData(across, down);
  const states = elementStates(walk, cycle);
  const counts = new Float32Array(down * across * 4);
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < wide; j++) {
      counts[(Math.floor(i / block) * across + Math.floor(j / block)) * 4 + states[i * wide + j]]++;
    }
  }
  for (let cell = 0; cell < down * across; cell++) {
    const of = counts.subarray(cell * 4, cell * 4 + 4);
    const all = of[0] + of[1] + of[2] + of[3];
    for (let part = 0; part < 3; part++) {
      image.data[cell * 4 + part] = parts.reduce((sum, colour, state) => sum + (of[state] / all) * colour[part], 0);
    }
    image.data[cell * 4 + 3] = 255;
  }
  small.getContext("2d").putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(small, GUTTER, 1, across * block * scale, down * block * scale);
  if (block * scale >= LINES_FROM) lineCells(context, walk, scale, palette.line);
  frameBox(context, palette.soft, 1, GUTTER, 1, width, height);
  paintGutters(context, walk, cycle, scale, width, palette);
}

function lineCells(context, walk, scale, colour) {
  const { rows, wide } = walk.header;
  context.strokeStyle = colour;
  context.beginPath();
  for (let i = 1; i < rows; i++) {
    context.moveTo(GUTTER, 1 + i * scale);
    context.lineTo(GUTTER + wide * scale, 1 + i * scale);
  }
  for (let j = 1; j < wide; j++) {
    context.moveTo(GUTTER + j * scale, 1);
    context.lineTo(GUTTER + j * scale, 1 + rows * scale);
  }
  context.stroke();
}

/** Paints the rows that wait to move in on the left, and the sums that move out on the right. */
function paintGutters(context, walk, cycle, scale, width, palette) {
  const incoming = walk.lastBegun(walk.moves_in, cycle);
  const waits = cycle >= walk.enters[0] && incoming > walk.lastBegun(walk.enters, cycle);
  if (waits) fillBox(context, palette["k-LOAD"], 1, 1, GUTTER - 5, walk.movedIn(incoming, cycle) * scale);
  for (let tile = 0; tile < walk.count; tile++) {
    if (!(walk.complete[tile] <= cycle && cycle < walk.out[tile])) continue;
    fillBox(context, palette["k-STORE"], width + GUTTER + 4, 1, GUTTER - 5, (walk.out[tile] - cycle) * scale);
  }
}

export function paintArrayTiles(canvas, width, palette, walk, cycle) {
  const shown = Math.min(walk.count, MOST_TILE_ROWS);
  const height = shown * TILE_ROW + 18;
  const context = sizedContext(canvas, width, height);
  const { ink, soft } = palette;
  const now = walk.lastBegun(walk.enters, cycle);
  const first = clamped(now - Math.floor(shown / 2), 0, walk.count - shown);
  const scale = (width - TILE_LEFT - 2) / walk.header.length;
  context.font = CANVAS_FONT;
  for (let place = 0; place < shown; place++) {
    const tile = first + place;
    const over = walk.enters[tile] + walk.streams[tile];
    const stages = [
      ["k-LOAD", walk.moves_in[tile], walk.moves_in[tile] + walk.moved_in[tile]],
      ["k-MATMUL", walk.enters[tile], over],
      ["k-STORE", over, walk.out[tile]],
    ];
    const top = place * TILE_ROW;
    writeText(context, grouped(tile), TILE_LEFT - 6, top + TILE_ROW / 2, tile === now ? ink : soft, "right");
    for (const [name, begin, end] of stages) {
      const wide = Math.max((end - begin) * scale, 0.7);
      if (end > begin) fillBox(context, palette[name], TILE_LEFT + begin * scale, top + 1, wide, TILE_ROW - 3);
    }
  }
  writeText(context, grouped(walk.ofRun(0)), TILE_LEFT, height - 8, soft);
  writeText(context, grouped(walk.ofRun(walk.header.length)), width - 2, height - 8, soft, "right");
  fillBox(context, ink, TILE_LEFT + cycle * scale - 0.75, 0, 1.5, shown * TILE_ROW + 2);
}
