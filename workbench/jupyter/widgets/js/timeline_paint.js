// Draws lanes on a canvas: bars one by one where they are wide enough, else the share of the time that each kind fills.

import { colourOf } from "./common.js";
import { crowdedRuns, eachDrawn } from "./timeline_shares.js";

const TEXTURES = {
  // What tells kinds apart beside their colour: lines and dots in the ground's colour, on a tile of 6 x 6
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

/** The colours of the page's theme, and patterns of them. */
export function paletteOf(root, header, context) {
  const named = (name) => colourOf(root, name);
  const ground = named("ground");
  const kinds = [...header.kinds, "OTHER"].map((name) => ({ name, colour: named(`k-${name}`) }));
  for (const kind of kinds) {
    kind.fill = texture(context, kind.colour, ground, TEXTURES[kind.name] ?? []);
    kind.ink = inkOn(kind.colour);
  }
  const causes = header.causes.map((name) => named(`c-${name}`));
  const rest = ["ink", "soft", "line", "faint", "band", "accent", "raised", "busy"].map((name) => [name, named(name)]);
  return { kinds, causes, ground, launch: named("c-launch"), ...Object.fromEntries(rest) };
}

function texture(context, colour, ground, lines) {
  if (!lines.length) return colour;
  const tile = new OffscreenCanvas(TILE, TILE);
  const drawn = tile.getContext("2d");
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
  return context.createPattern(tile, "repeat");
}

/** Black or white, whichever is easier to read on a colour. */
export function inkOn(colour) {
  const parts = colour.match(/[\d.]+/g).slice(0, 3).map(Number);
  const linear = parts.map((part) => (part / 255 <= 0.04 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  const light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  return light > 0.18 ? "#000" : "#fff";
}

/** All rows, for the stretch of time `window`, on a canvas of `width` pixels. */
export function paintRows(context, data, rows, window, width, palette) {
  for (const row of rows) {
    if (row.kind === "head") continue;
    context.fillStyle = palette.faint;
    context.globalAlpha = 0.6;
    context.fillRect(0, row.top, width, row.bar);
    context.globalAlpha = 1;
    if (row.kind === "channel") paintChannels(context, data, row, window, width, palette);
    else if (row.kind === "mean") paintMean(context, data, row, window, width, palette);
    else paintLane(context, data, row, window, width, palette);
  }
}

function paintLane(context, data, row, window, width, palette) {
  const lane = row.lanes[0].number;
  const { begin, end } = window;
  const scale = width / (end - begin);
  const at = (moment) => (moment - begin) * scale;
  const held = data.held[lane];
  const places = held.places(begin, end, width);
  const runs = crowdedRuns(places);
  paintIdle(context, data, row, window, width, palette);
  eachDrawn(held, begin, end, width, places, (span) => {
    const kind = palette.kinds[data.shown[span]];
    const [start, work, stop] = [at(data.start[span]), at(data.work[span]), at(data.end[span])];
    if (work > start) paintBar(context, start, row.top, work - start, row.bar, kind, PALE);
    paintBar(context, work, row.top, stop - work, row.bar, kind, 1);
    if (stop - work > 3) {
      context.fillStyle = palette.ground;
      context.fillRect(Math.min(stop, width) - 0.5, row.top, 0.5, row.bar);
    }
    paintLabel(context, data, span, Math.max(work, 0), Math.min(stop, width), row, kind);
  });
  const busy = data.busy[lane];
  const workPlaces = runs.length ? busy.places(begin, end, width) : places;
  for (const [from, until] of runs) {
    context.fillStyle = palette.ground;
    context.fillRect(from, row.top, until - from, row.bar);
    context.fillStyle = palette.faint;
    context.globalAlpha = 0.6;
    context.fillRect(from, row.top, until - from, row.bar);
    context.globalAlpha = 1;
    const found = busy.shares(begin, end, width, workPlaces, from, until);
    const whole = held.shares(begin, end, width, places, from, until);
    paintStack(context, found, whole, { from, until, top: row.top, height: row.bar }, palette);
  }
}

function paintBar(context, left, top, width, height, kind, alpha) {
  context.globalAlpha = alpha;
  context.fillStyle = kind.fill;
  context.fillRect(left, top, Math.max(width, LEAST_BAR), height);
  context.globalAlpha = 1;
}

/** A bar's kind, and its cycles where there is room. */
function paintLabel(context, data, span, left, right, row, kind) {
  const letters = (right - left - 6) / LETTER;
  if (letters < 1 || row.bar < 10) return;
  const cycles = (data.end[span] - data.work[span]).toLocaleString("en-US");
  const full = `${kind.name} ${cycles}`;
  const text = [full, kind.name, kind.name.slice(0, 2)].find((each) => each.length <= letters);
  if (!text || kind.name === "OTHER") return;
  context.font = `${row.bar < 14 ? 9 : 10.5}px system-ui, sans-serif`;
  const wide = context.measureText(text).width;
  if (wide > right - left - 6) return;
  const x = (left + right - wide) / 2;
  context.fillStyle = kind.colour; // a plain ground, so that the texture does not run through the letters
  context.fillRect(x - 2, row.top, wide + 4, row.bar);
  context.fillStyle = kind.ink;
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillText(text, x, row.top + row.bar / 2 + 0.5);
}

/** Kinds of work on top of each other, then paler what holds the lane and waits. */
function paintStack(context, busy, held, { from, until, top, height }, palette) {
  const count = until - from;
  const base = new Float32Array(count);
  for (const pale of [false, true]) {
    palette.kinds.forEach((kind, number) => {
      const at = number * count;
      const share = (column) => (pale ? held[at + column] - busy[at + column] : busy[at + column]);
      context.globalAlpha = pale ? PALE : 1;
      context.fillStyle = kind.fill;
      paintSteps(context, base, share, { from, count, top, height });
    });
  }
  context.globalAlpha = 1;
}

/** One layer of a stack: columns of equal height together are one rectangle. Adds the layer to `base`. */
function paintSteps(context, base, share, { from, count, top, height }) {
  const visible = 0.02; // of the lane's height; less than half a pixel
  let drawn = false;
  context.beginPath();
  for (let column = 0; column < count; column++) {
    const own = share(column);
    if (own < visible) continue;
    drawn = true;
    const low = base[column];
    base[column] = low + own;
    context.rect(from + column, top + height * (1 - low - own), 1, height * own);
  }
  if (drawn) context.fill();
}

/** Why the lane stands idle: a strip below the bars, and in words where there is room. */
function paintIdle(context, data, row, window, width, palette) {
  const lane = row.lanes[0].number;
  const { begin, end } = window;
  const scale = width / (end - begin);
  const idle = data.idle[lane];
  const places = idle.places(begin, end, width);
  const box = { top: row.top + row.bar + 1, height: row.strip };
  eachDrawn(idle, begin, end, width, places, (piece) => {
    const left = (idle.begin[piece] - begin) * scale;
    const right = (idle.end[piece] - begin) * scale;
    context.fillStyle = palette.causes[idle.group[piece]];
    context.fillRect(left, box.top, Math.max(right - left, LEAST_BAR), box.height);
    const span = data.held[lane].pieceAt(idle.begin[piece]);
    const name = data.header.causes[idle.group[piece]].replaceAll("_", " ");
    const [from, until] = [Math.max(left, 0), Math.min(right, width)];
    if (name.length * LETTER + 14 > until - from || data.start[span] <= idle.begin[piece] || row.bar < 10) return;
    context.font = `${row.bar < 14 ? 9 : 10.5}px system-ui, sans-serif`;
    context.fillStyle = palette.soft;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(name, (from + until) / 2, row.top + row.bar / 2 + 0.5);
  });
  for (const [from, until] of crowdedRuns(places)) {
    context.fillStyle = palette.ground;
    context.fillRect(from, box.top, until - from, box.height);
    const found = idle.shares(begin, end, width, places, from, until);
    const count = until - from;
    const base = new Float32Array(count);
    palette.causes.forEach((colour, number) => {
      context.fillStyle = colour;
      paintSteps(context, base, (column) => found[number * count + column], { from, count, ...box });
    });
  }
}

/** Several lanes as one: the mean of their shares. */
function paintMean(context, data, row, window, width, palette) {
  const { begin, end } = window;
  const sum = (shares) => {
    const each = shares.map((one) => one.shares(begin, end, width, one.places(begin, end, width), 0, width));
    return each[0].map((_, place) => each.reduce((total, one) => total + one[place], 0) / each.length);
  };
  const busy = sum(row.lanes.map(({ number }) => data.busy[number]));
  const held = sum(row.lanes.map(({ number }) => data.held[number]));
  paintStack(context, busy, held, { from: 0, until: width, top: row.top, height: row.bar }, palette);
}

/** What channels of the memory moved, as a share of what they can: as high as the bar where they are at their peak. */
function paintChannels(context, data, row, window, width, palette) {
  const { begin, end } = window;
  const scale = width / (end - begin);
  const times = data.channel_times;
  const peak = data.header.channels.bytes_per_cycle;
  const pieces = times.length - 1;
  const bytesBefore = channelSums(data);
  const moved = (from, until) =>
    row.channels.reduce((sum, each) => {
      const at = each * (pieces + 1);
      return sum + bytesBefore[at + until] - bytesBefore[at + from];
    }, 0);
  context.fillStyle = palette.kinds[data.header.kinds.indexOf("LOAD")].colour;
  let piece = firstAfter(times, begin) - 1;
  while (piece < pieces && times[piece] < end) {
    const left = Math.max((times[piece] - begin) * scale, 0);
    const until = Math.max(piece + 1, Math.min(firstAfter(times, begin + (left + 1) / scale) - 1, pieces));
    const right = Math.min((times[until] - begin) * scale, width);
    const share = moved(piece, until) / ((times[until] - times[piece]) * peak * row.channels.length);
    context.fillRect(left, row.top + row.bar * (1 - share), right - left, row.bar * share);
    piece = until;
  }
}

/** Bytes of each channel before each border of the pieces of time. */
export function channelSums(data) {
  if (!data.channel_sums) {
    const pieces = data.channel_times.length - 1;
    const { count } = data.header.channels;
    data.channel_sums = new Float64Array(count * (pieces + 1));
    for (let channel = 0; channel < count; channel++) {
      const at = channel * (pieces + 1);
      for (let piece = 0; piece < pieces; piece++) {
        data.channel_sums[at + piece + 1] = data.channel_sums[at + piece] + data.channel_bytes[channel * pieces + piece];
      }
    }
  }
  return data.channel_sums;
}

/** The place of the first of sorted numbers that is larger. */
export function firstAfter(sorted, number) {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (sorted[middle] > number) high = middle;
    else low = middle + 1;
  }
  return low;
}
