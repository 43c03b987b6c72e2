// The stretch of time that a timeline shows. Pure functions.

import { clamped } from "./common.js";

/** The stretch nearest to `begin` to `end` that lies in the run and is at least `least` cycles long. */
export function held(begin, end, whole, least) {
  const length = clamped(end - begin, Math.min(least, whole), whole);
  const start = clamped(begin + (end - begin - length) / 2, 0, whole - length);
  return { begin: start, end: start + length };
}

/** Shows `factor` times as much time; `moment` keeps its place in the view. */
export function zoomed({ begin, end }, factor, moment) {
  return { begin: moment - (moment - begin) * factor, end: moment + (end - moment) * factor };
}

/** Pans, but not beyond the run, so that the stretch keeps its length. */
export function pannedWithin({ begin, end }, cycles, whole) {
  const by = clamped(cycles, -begin, whole - end);
  return { begin: begin + by, end: end + by };
}

/** Round numbers from `begin` to `end`, at most `most` of them, in steps of at least `least`. */
export function ticksBetween(begin, end, most, least) {
  const rough = Math.max((end - begin) / Math.max(most, 1), least);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((part) => part * power).find((each) => each >= rough * (1 - 1e-9));
  const found = [];
  for (let number = Math.ceil(begin / step); number * step <= end; number++) found.push(number * step);
  return found;
}

/** The border of a piece that is nearest to a moment, if one is within `reach`; else the nearest whole cycle. */
export function snapped(moment, reach, lanes) {
  let best = Math.round(moment);
  let distance = reach;
  for (const lane of lanes) {
    const piece = lane.pieceAt(moment);
    for (const near of [piece - 1, piece]) {
      if (near < lane.first || near >= lane.last) continue;
      for (const border of [lane.begin[near], lane.end[near]]) {
        if (Math.abs(border - moment) < distance) {
          distance = Math.abs(border - moment);
          best = border;
        }
      }
    }
  }
  return best;
}
