// Draws lanes on a canvas: bars one by one if they are wide enough, else the share of the time that each kind fills.

import { CANVAS_FONT, colourOf, coloursOf, fillBox, partsOf, writeText } from "./canvas.js";
import { firstWhere } from "./common.js";
import { crowdedColumns, eachDrawn, meanShares, runsOf } from "./timeline_shares.js";
import { tileOf } from "./timeline_strip.js";

export const TEXTURES = {
  // Lines and dots in the background's colour, which distinguish kinds beside their colour, on a tile of 6 x 6
  LOAD: [[0, 6, 6, 0]],
  STORE: [[0, 0, 6, 6]],
  COPY: [[0, 3, 2, 3]],
  GATHER: [[0, 6, 6, 0], [0, 3, 3, 0], [3, 6, 6, 3]],
  SCATTER: [[0, 0, 6, 6], [0, 3, 3, 6], [3, 0, 6, 3]],
  MATMUL: [],
  VECTOR: [[0, 3, 6, 3]],
  DIRECT: [[3, 0, 3, 6]],
  BARRIER: [[0, 0, 6, 6], [0, 6, 6, 0]],
  HOST: [[0, 3, 6, 3], [3, 0, 3, 6]],
  OTHER: [],
};
const TILE = 6;
const PALE = 0.35; // as in the static picture: style.HELD
const LETTER = 6.2; // pixels of a letter at 10.5 px, on the average
const LEAST_BAR = 0.6;
const NARROW_FONT = "9px system-ui, sans-serif";

/** The colours of the page's theme, patterns in them, and the clock for the lengths written on bars. */
export function paletteOf(root, header, context, clock) {
  const named = (name) => colourOf(root, name);
  const ground = named("ground");
  const kinds = [...header.kinds, "OTHER"].map((name) => {
    const colour = named(`k-${name}`);
    const canvas = textured(colour, ground, TEXTURES[name] ?? []);
    return { name, colour, fill: context.createPattern(canvas, "repeat"), tile: tileOf(canvas), ink: inkOn(colour) };
  });
  const causes = header.causes.map((name) => named(`c-${name}`));
  const tiles = causes.map((colour) => tileOf(textured(colour, ground, [])));
  const rest = coloursOf(root, ["ink", "soft", "line", "faint", "band", "accent", "raised"]);
  return { clock, kinds, causes, tiles, ground, load: named("k-LOAD"), launch: named("c-launch"), ...rest };
}

/** A tile of a colour, with lines in the background's colour. */
export function textured(colour, ground, lines) {
  const canvas = new OffscreenCanvas(TILE, TILE);
  const drawn = canvas.getContext("2d", { willReadFrequently: true });
  drawn.fillStyle = colour;
  drawn.fillRect(0, 0, TILE, TILE);
  drawn.strokeStyle = ground;
  drawn.globalAlpha = 0.42;
  for (const [x0, y0, x1, y1] of lines) {
    drawn.beginPath();
    drawn.moveTo(x0, y0);
    drawn.lineTo(x1, y1);
    drawn.stroke();
  }
  return canvas;
}

/** Black or white, whichever is easier to read on a colour. */
function inkOn(colour) {
  const parts = partsOf(colour).map((part) => part / 255);
  const linear = parts.map((part) => (part <= 0.04 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  const light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  return light > 0.18 ? "#000" : "#fff";
}

/** Paints all rows for the stretch of time `window`, on a canvas as wide as `strips`. */
export function paintRows(context, data, rows, window, strips, palette) {
  for (const row of rows) {
    row.words = []; // stretches of the row with words, for lines that are drawn over them
    if (row.kind === "head") continue;
    fillBox(context, palette.faint, 0, row.top, strips.width, row.bar, 0.6);
    if (row.kind === "channel") paintChannels(context, data, row, window, strips.width, palette);
    else if (row.kind === "mean") paintMean(context, data, row, window, strips, palette);
    else {
      paintIdle(context, data, row, window, strips, palette);
      paintLane(context, data, row, window, strips, palette);
    }
  }
}

function paintLane(context, data, row, window, strips, palette) {
  const lane = row.lanes[0].number;
  const { begin, end } = window;
  const { width } = strips;
  const scale = width / (end - begin);
  const at = (moment) => (moment - begin) * scale;
  const held = data.held[lane];
  const places = held.places(begin, end, width);
  const crowded = crowdedColumns(places);
  eachDrawn(held, begin, end, crowded, places, (span) => {
    const kind = palette.kinds[data.shown[span]];
    const [start, work, stop] = [at(data.start[span]), at(data.work[span]), at(data.end[span])];
    if (work > start) fillBox(context, kind.fill, start, row.top, Math.max(work - start, LEAST_BAR), row.bar, PALE);
    fillBox(context, kind.fill, work, row.top, Math.max(stop - work, LEAST_BAR), row.bar);
    if (stop - work > 3) fillBox(context, palette.ground, Math.min(stop, width) - 0.5, row.top, 0.5, row.bar);
    paintLabel(context, data, span, { left: Math.max(work, 0), right: Math.min(stop, width), row, kind, palette });
  });
  const runs = runsOf(crowded);
  if (!runs.length) return;
  const strip = strips.of(row.bar);
  const busy = data.busy[lane];
  const workPlaces = data.waits ? busy.places(begin, end, width) : places;
  for (const [from, until] of runs) {
    const works = busy.shares(begin, end, width, workPlaces, from, until);
    const whole = data.waits ? held.shares(begin, end, width, places, from, until) : works;
    stack(strip, works, whole, from, until, palette);
    // clears the lane first, so that a piece that reaches into it is not painted twice
    fillBox(context, palette.ground, from, row.top, until - from, row.bar);
    fillBox(context, palette.faint, from, row.top, until - from, row.bar, 0.6);
  }
  strip.drawOn(context, row.top);
}

/** Writes a bar's kind and, if there is room, the length of its work in the unit of the axis. A word is written whole
 *  or not at all: the colour, its texture and the legend show the kind as well. */
function paintLabel(context, data, span, { left, right, row, kind, palette }) {
  const room = right - left - 6;
  if (room < kind.name.length * LETTER || kind.name === "OTHER") return;
  context.font = fontOf(row);
  const full = `${kind.name} ${palette.clock.number(data.end[span] - data.work[span])}`;
  let [text, wide] = [full, context.measureText(full).width];
  if (wide > room) [text, wide] = [kind.name, context.measureText(kind.name).width];
  if (wide > room) return;
  const x = (left + right - wide) / 2;
  // A plain ground, so that the texture does not run through the letters.
  fillBox(context, kind.colour, x - 2, row.top, wide + 4, row.bar);
  writeText(context, text, x, row.top + row.bar / 2 + 0.5, kind.ink);
  row.words.push([x - 2, x + wide + 2]);
}

/** Stacks the kinds of work on top of each other, then, paler, the kinds that hold the lane and wait. */
function stack(strip, works, held, from, until, palette) {
  const count = until - from;
  const layer = (shares, alpha) => {
    palette.kinds.forEach(({ tile }, number) => strip.layer(tile, shares, number * count, from, until, alpha));
  };
  layer(works, 1);
  if (held === works) return;
  const waits = held.map((share, place) => share - works[place]);
  layer(waits, PALE);
}

/** Paints the causes of idle time: a strip below the bars, with words if there is room. */
function paintIdle(context, data, row, window, strips, palette) {
  const lane = row.lanes[0].number;
  const { begin, end } = window;
  const { width } = strips;
  const scale = width / (end - begin);
  const idle = data.idle[lane];
  const places = idle.places(begin, end, width);
  const crowded = crowdedColumns(places);
  const top = row.top + row.bar + 1;
  eachDrawn(idle, begin, end, crowded, places, (piece) => {
    const left = Math.max((idle.begin[piece] - begin) * scale, 0);
    const right = Math.min((idle.end[piece] - begin) * scale, width);
    fillBox(context, palette.causes[idle.group[piece]], left, top, Math.max(right - left, LEAST_BAR), row.strip);
    const span = data.held[lane].pieceAt(idle.begin[piece]);
    const name = data.header.causes[idle.group[piece]].replaceAll("_", " ");
    if (name.length * LETTER + 14 > right - left || data.start[span] <= idle.begin[piece]) return;
    context.font = fontOf(row);
    writeText(context, name, (left + right) / 2, row.top + row.bar / 2 + 0.5, palette.soft, "center");
    const half = context.measureText(name).width / 2;
    row.words.push([(left + right) / 2 - half, (left + right) / 2 + half]);
  });
  const runs = runsOf(crowded);
  if (!runs.length) return;
  const strip = strips.of(row.strip);
  for (const [from, until] of runs) {
    context.clearRect(from, top, until - from, row.strip);
    const found = idle.shares(begin, end, width, places, from, until);
    for (const number of data.header.idle_causes) {
      strip.layer(palette.tiles[number], found, number * (until - from), from, until, 1);
    }
  }
  strip.drawOn(context, top);
}

function fontOf(row) {
  return row.bar < 14 ? NARROW_FONT : CANVAS_FONT;
}

/** Paints several lanes as one row: the mean of their shares. */
function paintMean(context, data, row, window, strips, palette) {
  const { width } = strips;
  const mean = (lanes) => meanShares(row.lanes.map(({ number }) => lanes[number]), window.begin, window.end, width);
  const works = mean(data.busy);
  const held = data.waits ? mean(data.held) : works;
  const strip = strips.of(row.bar);
  stack(strip, works, held, 0, width, palette);
  strip.drawOn(context, row.top);
}

/** Paints the bytes that channels of the memory moved, as a share of their peak: a full bar is the peak. */
function paintChannels(context, data, row, window, width, palette) {
  const { begin, end } = window;
  const scale = width / (end - begin);
  const times = data.channel_times;
  const peak = data.header.channels.bytes_per_cycle;
  const pieces = times.length - 1;
  const moved = (from, until) =>
    row.channels.reduce((sum, each) => {
      const at = each * (pieces + 1);
      return sum + data.channel_moved[at + until] - data.channel_moved[at + from];
    }, 0);
  let piece = firstAfter(times, begin) - 1;
  while (piece < pieces && times[piece] < end) {
    const left = Math.max((times[piece] - begin) * scale, 0);
    const until = Math.max(piece + 1, Math.min(firstAfter(times, begin + (left + 1) / scale) - 1, pieces));
    const right = Math.min((times[until] - begin) * scale, width);
    const share = moved(piece, until) / ((times[until] - times[piece]) * peak * row.channels.length);
    fillBox(context, palette.load, left, row.top + row.bar * (1 - share), right - left, row.bar * share);
    piece = until;
  }
}

/** The place of the first one of sorted numbers that is larger than `number`. */
export function firstAfter(sorted, number) {
  return firstWhere(0, sorted.length, (place) => sorted[place] > number);
}
