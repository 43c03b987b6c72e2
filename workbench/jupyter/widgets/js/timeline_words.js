// A timeline's texts about spans, gaps and areas. Pure functions; every time has its unit.

import { grouped } from "./common.js";

/** Writes times in the unit that the reader chose: `1,204 cycles` or `1,280.9 ns`. */
export class Clock {
  constructor(header) {
    this.mhz = header.clock_mhz;
    this.unit = "cycles";
  }

  /** A moment or a length as a number of the unit. */
  number(cycles) {
    if (this.unit === "cycles") return grouped(Math.round(cycles));
    return ((cycles / this.mhz) * 1e3).toLocaleString("en-US", { maximumFractionDigits: 1 });
  }

  length(cycles) {
    const unit = this.unit === "cycles" && Math.round(cycles) === 1 ? "cycle" : this.unit;
    return `${this.number(cycles)} ${unit}`;
  }

  /** `cycles 1,204 to 1,300 (96 cycles)`. */
  stretch(begin, end) {
    return `${this.unit} ${this.number(begin)} to ${this.number(end)} (${this.length(end - begin)})`;
  }

  /** The cycles of one unit, for round numbers on the axis. */
  get step() {
    return this.unit === "cycles" ? 1 : this.mhz / 1e3;
  }
}

export function percent(share) {
  return share > 0 && share < 0.01 ? "<1%" : `${Math.round(share * 100)}%`;
}

export function bytesIn(bytes) {
  const names = ["bytes", "KiB", "MiB", "GiB"];
  let place = 0;
  while (bytes >= 1024 && place + 1 < names.length) {
    bytes /= 1024;
    place++;
  }
  return `${bytes.toLocaleString("en-US", { maximumFractionDigits: 1 })} ${names[place]}`;
}

export function inWords(cause) {
  return cause.replaceAll("_", " ");
}

export function counted(number, noun) {
  return `${grouped(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** One line of text about a span. */
export function spanLine(data, span, clock) {
  const { kinds, kernels } = data.header;
  const time = clock.stretch(data.start[span], data.end[span]);
  return `span ${data.row[span]}: ${kinds[data.kind[span]]}, ${kernels[data.launch[span]]}, ${time}`;
}

/** A launch's kernel; also the equal kernel whose program it runs. */
function kernelOf(data, launch) {
  const { kernels, programs } = data.header;
  const [own, program] = [kernels[launch], programs[launch]];
  return own === program ? own : `${own}, which runs the program of ${program}`;
}

/** The facts about a span, as `[what, text]`. */
export function spanFacts(data, span, clock, slack) {
  const { causes, origins } = data.header;
  const waits = data.work[span] - data.start[span];
  const facts = [
    ["kernel", kernelOf(data, data.launch[span])],
    ["time", clock.stretch(data.start[span], data.end[span])],
    ["waited for last", inWords(causes[data.cause[span]])],
  ];
  const names = origins[data.origin[span]];
  if (names.length) facts.splice(1, 0, [names.length > 1 ? "nodes" : "node", names.join(", ")]);
  if (waits > 0) facts.push(["waits on its way", clock.length(waits)]);
  if (data.bytes[span] > 0) {
    const rate = data.bytes[span] / Math.max(data.end[span] - data.start[span], 1);
    facts.push(["moves", `${bytesIn(data.bytes[span])}, ${rateIn(rate, clock)}`]);
  }
  if (slack !== undefined) {
    facts.push(["slack", slack ? `could start ${clock.length(slack)} later` : "none: the run waits for it"]);
  }
  return facts;
}

/** A rate in bytes for each cycle, and by the machine's clock. */
export function rateIn(bytes, clock) {
  const most = { maximumFractionDigits: 1 };
  const perSecond = ((bytes * clock.mhz) / 1e3).toLocaleString("en-US", most);
  return `${bytes.toLocaleString("en-US", most)} bytes a cycle = ${perSecond} GB/s`;
}

export function gapLine(data, gap, clock) {
  return `${data.lanes[gap.lane].name} idle, ${inWords(gap.cause)}: ${clock.stretch(gap.begin, gap.end)}`;
}

/** The sums over all rows of an area. */
export function areaSums(rows) {
  const sum = (name) => rows.reduce((total, row) => total + row[name], 0);
  const [bytes, cycles] = [sum("bytes"), rows[0]?.cycles ?? 0];
  return { spans: sum("spans"), bytes, share: sum("share") / Math.max(rows.length, 1), rate: bytes / Math.max(cycles, 1) };
}
