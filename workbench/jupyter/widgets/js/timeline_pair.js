// Timelines above each other that show the same stretch of time, and a timeline's questions to Python.

import { element } from "./common.js";
import { createTimeline } from "./timeline.js";

/** A block of columns of a run: `timeline`, `dependences` or `critical`; null if Python answered with an error. */
export async function askedBlock(link, run, what) {
  const found = await link.ask("columns", { run, what });
  return found && { header: found.answer.header, data: found.buffers[0] };
}

/** The callbacks by which a timeline asks Python. */
export function askingCallbacks(link, run) {
  return {
    more: (what) => askedBlock(link, run, what),
    gap: async (unit, cycle) => (await link.ask("gap", { run, unit, cycle }))?.answer ?? null,
    about: async (span) => (await link.ask("about", { run, span }))?.answer ?? null,
  };
}

/** A timeline for each block, locked in time: a moment of one is the moment of the others by their clocks. */
export function createTimelines(host, blocks, titles, callbacks) {
  const clocks = blocks.map(({ header }) => header.clock_mhz);
  const longest = Math.max(...blocks.map(({ header }) => header.makespan / header.clock_mhz));
  const made = [];
  const others = (run, act) => {
    made.forEach((timeline, other) => other !== run && act(timeline, clocks[other] / clocks[run]));
  };
  blocks.forEach((block, run) => {
    const part = element("div", { role: "group", "aria-label": titles[run] || "timeline" });
    if (titles[run]) part.append(element("p", { class: "tl-run" }, element("b", {}, titles[run])));
    host.append(part);
    const locked = {
      ...callbacks[run],
      whole: longest * clocks[run],
      window: (begin, end) => others(run, (other, pace) => other.show(begin * pace, end * pace)),
      cursor: (cycle) => others(run, (other, pace) => other.cursor(cycle === null ? null : cycle * pace)),
      unit: (unit) => others(run, (other) => other.setUnit(unit)),
    };
    made.push(createTimeline(part, block, locked));
  });
  return made.map((timeline, run) => ({
    ...timeline,
    showAll(begin, end) {
      timeline.show(begin, end);
      others(run, (other, pace) => other.show(begin * pace, end * pace));
    },
  }));
}
