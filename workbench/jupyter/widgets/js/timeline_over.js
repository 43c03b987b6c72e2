// The parts above and over the lanes: axis, kernels, minimap, cursor, selection, arrows.

import { CANVAS_FONT, fillBox, frameBox, writeText } from "./canvas.js";
import { clamped } from "./common.js";
import { rowOfLane } from "./timeline_layout.js";
import { meanShares } from "./timeline_shares.js";
import { ticksBetween } from "./timeline_window.js";

const LETTER_WIDTH = 6.2;
const TICK_EVERY = 92; // pixels, at least
const LEAST_BEND = 22; // pixels that an arrow leaves and arrives level
const NUMBER_HIGH = 14;
const ARROW_HEAD = 8;
const ARROWS_NAMED = 12; // with more arrows their numbers would lie on one another

/** Paints the axis and the kernels. */
export function paintHead(context, data, window, { width, height }, palette, clock) {
  const { begin, end } = window;
  const scale = width / (end - begin);
  const at = (moment) => (moment - begin) * scale;
  context.clearRect(0, 0, width, height);
  context.font = CANVAS_FONT;
  data.header.launches.forEach(([start, stop], number) => {
    const [left, right] = [Math.max(at(start), 0), Math.min(at(stop), width)];
    if (right <= 0 || left >= width || right - left < 0.5) return;
    fillBox(context, number % 2 ? palette.raised : palette.band, left, 19, right - left, height - 19);
    fillBox(context, palette.soft, left, 19, 1, height - 19);
    const name = fitting(data.header.kernels[number], (right - left - 8) / LETTER_WIDTH);
    writeText(context, name, left + 5, 29, palette.ink);
  });
  let done = 0; // what lies between two kernels is the launch of the second
  for (const [start, stop] of data.header.launches) {
    const [left, right] = [at(done), at(start)];
    if (start > done && right > 0 && left < width) {
      fillBox(context, palette.launch, left, height - 5, Math.max(right - left, 0.5), 4);
    }
    done = stop;
  }
  for (const moment of ticksOf(window, width, clock)) {
    if (end <= 1 && moment > data.header.makespan) break; // a run of no cycles
    fillBox(context, palette.soft, Math.round(at(moment)), 14, 1, 5);
    const text = clock.number(moment);
    const half = context.measureText(text).width / 2;
    writeText(context, text, clamped(at(moment), half, width - half), 7, palette.soft, "center");
  }
}

/** Moments of round numbers in the clock's unit. */
function ticksOf({ begin, end }, width, clock) {
  const { step } = clock;
  const least = clock.unit === "cycles" ? 1 : 0.1;
  return ticksBetween(begin / step, end / step, width / TICK_EVERY, least).map((tick) => tick * step);
}

/** A kernel's name in at most `letters` letters, as in the static picture: cut with a mark, its number, or nothing. */
export function fitting(kernel, letters) {
  if (kernel.length <= letters) return kernel;
  const number = kernel.split("_")[0];
  if (letters >= number.length + 5) return `${kernel.slice(0, Math.floor(letters) - 1).replace(/_+$/, "")}…`;
  return number.length <= letters ? number : "";
}

/** Paints the lines of the axis and of kernels behind the lanes. */
export function paintGrid(context, data, window, { width, height }, palette, clock) {
  const { begin, end } = window;
  const scale = width / (end - begin);
  data.header.launches.forEach(([start, stop], number) => {
    if (number % 2 || stop < begin || start > end) return;
    fillBox(context, palette.band, (start - begin) * scale, 0, (stop - start) * scale, height);
  });
  for (const moment of ticksOf(window, width, clock)) {
    fillBox(context, palette.line, Math.round((moment - begin) * scale), 0, 1, height);
  }
}

/** Paints the whole run: a line for each class of unit, with the share of its units' time that is work. */
export function paintMinimap(context, data, { width, height }, palette) {
  const groups = [...new Set(data.lanes.map((lane) => lane.group))];
  const each = height / Math.max(groups.length, 1);
  const whole = Math.max(data.header.makespan, 1);
  const kinds = palette.kinds.length;
  groups.forEach((group, place) => {
    const lanes = data.lanes.filter((lane) => lane.group === group);
    const mean = meanShares(lanes.map(({ number }) => data.busy[number]), 0, whole, width);
    for (let column = 0; column < width; column++) {
      let base = (place + 1) * each - 0.5;
      for (let kind = 0; kind < kinds; kind++) {
        const tall = mean[kind * width + column] * (each - 1.5);
        if (tall <= 0) continue;
        fillBox(context, palette.kinds[kind].colour, column, base - tall, 1, tall);
        base -= tall;
      }
    }
  });
}

/** Paints the cursor, the area, the selected span and its arrows, which `seen` holds. */
export function paintOver(context, data, rows, window, { width, height }, palette, clock, seen) {
  const { begin, end } = window;
  const at = (moment) => ((moment - begin) / (end - begin)) * width;
  context.clearRect(0, 0, width, height);
  if (seen.area) paintArea(context, rows, seen.area, at, { width, height }, palette, clock);
  if (seen.gap) {
    const row = rowOfLane(rows, seen.gap.lane);
    const [left, right] = [at(seen.gap.begin), at(seen.gap.end)];
    frameBox(context, palette.accent, 2, left - 1, row.top - 1, right - left + 2, row.bar + 2, [4, 3]);
  }
  if (seen.span >= 0) {
    besideWords(context, rows, { width, height }, () => {
      for (const arrow of seen.arrows) paintArrow(context, arrow, endsOf(data, rows, arrow, at), { palette, width });
    });
    const row = rowOfLane(rows, data.laneOf(seen.span));
    const left = at(data.start[seen.span]);
    const right = Math.max(at(data.end[seen.span]), left + 2);
    frameBox(context, palette.accent, 2, left - 1, row.top - 1, right - left + 2, row.bar + 2);
    const own = { left: left - 2, right: right + 2, top: row.top - 2, bottom: row.top + row.bar + 2 };
    nameRooms(context, data, rows, at, seen, own, { palette, clock, width });
  }
  if (seen.cursor !== null) fillBox(context, palette.accent, Math.round(at(seen.cursor)), 0, 1, height);
}

function paintArea(context, rows, area, at, { width, height }, palette, clock) {
  const [left, right] = [at(area.begin), at(area.end)];
  const chosen = rows.filter((row) => row.lanes?.some(({ number }) => area.lanes.includes(number)));
  const top = chosen[0]?.top ?? 0;
  const bottom = chosen.length ? chosen.at(-1).top + chosen.at(-1).height : height;
  fillBox(context, palette.accent, left, top, right - left, bottom - top, 0.13);
  fillBox(context, palette.accent, left, top, 1, bottom - top);
  fillBox(context, palette.accent, right - 1, top, 1, bottom - top);
  context.font = `600 ${CANVAS_FONT}`;
  const text = clock.length(area.end - area.begin);
  const wide = context.measureText(text).width + 10;
  const x = clamped((left + right - wide) / 2, 0, width - wide);
  fillBox(context, palette.accent, x, top, wide, 15);
  writeText(context, text, x + 5, top + 8, palette.ground);
}

/** Draws lines behind the words on the lanes, so that the words stay readable. */
function besideWords(context, rows, { width, height }, draw) {
  context.save();
  context.beginPath();
  context.rect(0, 0, width, height);
  for (const { words = [], top, bar } of rows) for (const [left, right] of words) context.rect(left, top, right - left, bar);
  context.clip("evenodd");
  draw();
  context.restore();
}

/** The ends of an arrow: from the end of a span's work to the begin of another span, at half the height of their bars.
 *  */
function endsOf(data, rows, { from, to }, at) {
  const height = (span) => {
    const row = rowOfLane(rows, data.laneOf(span));
    return row.top + row.bar / 2;
  };
  return [at(Math.min(data.end[from], data.start[to])), height(from), at(data.start[to]), height(to)];
}

/** Paints an arrow from the end of a span's work to the begin of another; it is thick if there is no room (slack)
 *  between them. */
function paintArrow(context, { room }, [x0, y0, x1, y1], { palette, width }) {
  if (Math.max(x0, x1) < 0 || Math.min(x0, x1) > width) return;
  const tight = room === 0;
  const bend = Math.max(LEAST_BEND, Math.abs(x1 - x0) / 2);
  context.strokeStyle = tight ? palette.accent : palette.ink;
  context.lineWidth = tight ? 2.2 : 1;
  context.setLineDash(tight ? [] : [5, 3]);
  context.beginPath();
  context.moveTo(x0, y0);
  context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
  context.stroke();
  context.setLineDash([]);
  context.fillStyle = context.strokeStyle;
  context.beginPath();
  context.moveTo(x1 + 1, y1);
  context.lineTo(x1 - 6, y1 - 3.5);
  context.lineTo(x1 - 6, y1 + 3.5);
  context.fill();
}

/** Writes the room of arrows that have some, at the other span, where each number has its own place: never over words,
 *  the selected span or another number. A number without a place is left to the words below the lanes. */
function nameRooms(context, data, rows, at, seen, own, { palette, clock, width }) {
  const named = seen.arrows.filter(({ room }) => room > 0);
  if (seen.arrows.length > ARROWS_NAMED) return;
  const taken = [own];
  for (const { words = [], top, bar } of rows) {
    taken.push(...words.map(([left, right]) => ({ left, right, top, bottom: top + bar })));
  }
  context.font = CANVAS_FONT;
  for (const arrow of named) {
    const text = `+${clock.number(arrow.room)}`;
    const wide = context.measureText(text).width + 6;
    const leaves = arrow.from === seen.span;
    const other = leaves ? arrow.to : arrow.from;
    const y = endsOf(data, rows, arrow, at)[leaves ? 3 : 1];
    const [left, right] = [at(data.start[other]) - (leaves ? ARROW_HEAD : 0), at(data.end[other])];
    const box = placedFree(taken, [right + 3, left - wide - 3], y, wide, width);
    if (!box) continue;
    taken.push(box);
    fillBox(context, palette.ground, box.left, box.top, wide, box.bottom - box.top);
    writeText(context, text, box.left + 3, (box.top + box.bottom) / 2, palette.ink);
  }
}

/** A free box for a number at one of the left edges, with its middle at `y`, or above or below; null if there is none.
 *  */
function placedFree(taken, edges, y, wide, width) {
  const boxes = [0, -NUMBER_HIGH, NUMBER_HIGH].flatMap((down) => edges.map((left) => {
    const top = y + down - NUMBER_HIGH / 2;
    return { left, right: left + wide, top, bottom: top + NUMBER_HIGH };
  }));
  const meets = (one, other) =>
    one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;
  const free = (box) => box.left >= 0 && box.right <= width && box.top >= 0 && !taken.some((each) => meets(box, each));
  return boxes.find(free) ?? null;
}
