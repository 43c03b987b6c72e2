// A timeline's columns as Python packed them (workbench/explaining/views/timelines/columns.py), and answers from them:
// the span at a moment, the reason why a unit is idle, the sums of an area, the spans that a search finds. Pure
// functions of the columns.

import { Shares } from "./timeline_shares.js";

const ARRAYS = { u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, f64: Float64Array };
const FORMAT = 1;
const NO_ROW = 0xffffffff;
const ALIGNED = 8; // Python begins columns at multiples of this

/** The columns of a block by name, as views of the block. */
export function columnsOf({ header, data }) {
  if (header.version !== FORMAT) {
    throw new Error(`the timeline's columns have version ${header.version}, and this page reads ${FORMAT}`);
  }
  const lies = ArrayBuffer.isView(data) ? data : new Uint8Array(data);
  const fits = lies.byteOffset % ALIGNED === 0;
  const buffer = fits ? lies.buffer : lies.buffer.slice(lies.byteOffset, lies.byteOffset + lies.byteLength);
  const offset = fits ? lies.byteOffset : 0;
  return Object.fromEntries(
    header.columns.map((each) => [each.name, new ARRAYS[each.type](buffer, offset + each.offset, each.length)]),
  );
}

export class TimelineData {
  constructor(block) {
    this.header = block.header;
    Object.assign(this, columnsOf(block));
    this.lanes = this.header.lanes.map((lane, number) => ({ ...lane, number }));
    this.waits = this.work.some((work, span) => work > this.start[span]); // true if spans hold their lane while they wait on their way
    this.other = this.header.kinds.length; // the group of faint spans
    this.idle = this.lanes.map(({ number }) =>
      this.pieces("idle_start", "idle_end", this.idle_cause, this.header.causes.length, "idle_first", number),
    );
    this.mark(null);
  }

  pieces(begin, end, group, groups, first, lane) {
    const columns = { begin: this[begin], end: this[end], group };
    return new Shares(columns, groups, this[first][lane], this[first][lane + 1]);
  }

  /** Marks spans, a byte for each, so that all others are drawn faintly; null marks all. */
  mark(marked) {
    let group = this.kind;
    if (marked) {
      group = new Uint8Array(this.kind);
      for (let span = 0; span < group.length; span++) if (!marked[span]) group[span] = this.other;
    }
    this.shown = group;
    const groups = this.other + 1;
    const of = (begin, end) =>
      this.lanes.map(({ number }) => this.pieces(begin, end, group, groups, "lane_first", number));
    this.held = of("start", "end"); // the time for which spans hold their lane: waits on their way, and work
    this.busy = this.waits ? of("work", "end") : this.held;
  }

  /** A byte for each span: 1 if its row is among `rows`. */
  marksOf(rows) {
    const marked = new Uint8Array(this.row.length);
    for (const row of rows) marked[this.spanOf(row)] = 1;
    return marked;
  }

  /** The place in the columns of a row of the trace. */
  spanOf(row) {
    if (!this.places) {
      this.places = new Uint32Array(this.row.length);
      this.row.forEach((each, span) => (this.places[each] = span));
    }
    return this.places[row];
  }

  laneOf(span) {
    return this.lanes.findLast(({ number }) => this.lane_first[number] <= span).number;
  }

  /** The span that holds a lane at a moment, or -1. */
  spanAt(lane, moment) {
    const span = this.held[lane].pieceAt(moment);
    return span < this.held[lane].last && this.start[span] <= moment ? span : -1;
  }

  isWaiting(span, moment) {
    return this.start[span] <= moment && moment < this.work[span];
  }

  /** `span 3 (LOAD on dma0)`, for a place in the columns. */
  named(span) {
    return `span ${this.row[span]} (${this.header.kinds[this.kind[span]]} on ${this.lanes[this.laneOf(span)].name})`;
  }

  /** The span for which a span waited, if `cause` is the cause of its last wait; -1 if it is not known. */
  blockerOf(span, cause) {
    const last = this.header.causes[this.cause[span]];
    const [bus, ...told] = this.header.memory_causes;
    const same = cause === last || (last === bus && told.includes(cause));
    return same && this.blocker[span] !== NO_ROW ? this.spanOf(this.blocker[span]) : -1;
  }

  /** The reason why a lane does no work at a cycle, as in `j.simulated.gap`; null if it works. */
  gap(lane, cycle) {
    const { reasons, causes, another } = this.header;
    const idle = this.idle[lane];
    const piece = idle.pieceAt(cycle);
    if (piece >= idle.last || idle.begin[piece] > cycle) return this.outside(lane, cycle);
    const cause = causes[idle.group[piece]];
    const next = this.held[lane].pieceAt(idle.begin[piece]);
    const blocker = this.blockerOf(next, cause);
    const names = { next: this.named(next), blocker: blocker < 0 ? another : this.named(blocker) };
    const reason = reasons[cause].replace(/\{(\w+)\}/g, (_, name) => names[name]);
    return { lane, begin: idle.begin[piece], end: idle.end[piece], cause, reason, next, blocker };
  }

  /** Idle time that belongs to no span; null if a span holds the lane. */
  outside(lane, cycle) {
    if (this.spanAt(lane, cycle) >= 0) return null;
    const { reasons, outside, launches, kernels, hosted, makespan } = this.header;
    const held = this.held[lane];
    const after = held.pieceAt(cycle);
    const free = after > held.first ? held.end[after - 1] : 0;
    const taken = after < held.last ? held.begin[after] : makespan;
    const gap = (begin, end, cause, kernel) => {
      const reason = reasons[cause].replace("{kernel}", kernel);
      return { lane, begin: Math.max(begin, free), end: Math.min(end, taken), cause, reason, next: -1, blocker: -1 };
    };
    let done = 0;
    for (const [number, [begin, end]] of launches.entries()) {
      if (cycle >= done && cycle < begin) return gap(done, begin, outside.launch, "");
      const cause = hosted.includes(number) ? outside.host : outside.finished;
      if (cycle >= begin && cycle < end) return gap(begin, end, cause, kernels[number]);
      done = end;
    }
    return null;
  }

  /** The first span of a lane that ends after `begin`, and the first behind those that start before `end`. */
  spansWithin(lane, begin, end) {
    const held = this.held[lane];
    const last = held.pieceAt(end);
    return [held.pieceAt(begin), last < held.last && this.start[last] < end ? last + 1 : last];
  }

  /** The work of lanes between two cycles, as in `j.simulated.area`: a row for each lane. */
  area(begin, end, lanes) {
    return lanes.map((lane) => {
      const [first, until] = this.spansWithin(lane, begin, end);
      const busy = this.busy[lane].between(begin, end).reduce((sum, cycles) => sum + cycles, 0);
      const bytes = this.bytesWithin(first, until, begin, end);
      const cycles = end - begin;
      return { lane, spans: until - first, cycles, busy, share: busy / cycles, bytes, rate: bytes / cycles };
    });
  }

  /** The bytes that spans move between two cycles, as if each moved its bytes evenly; all spans between the first and
   *  the last lie within. */
  bytesWithin(first, until, begin, end) {
    const part = (span) => {
      const cycles = Math.min(this.end[span], end) - Math.max(this.start[span], begin);
      return (this.bytes[span] * cycles) / (this.end[span] - this.start[span]);
    };
    if (until - first < 1) return 0;
    if (until - first < 2) return part(first);
    return part(first) + part(until - 1) + this.bytesBefore(until - 1) - this.bytesBefore(first + 1);
  }

  bytesBefore(span) {
    if (!this.bytes_before) {
      this.bytes_before = new Float64Array(this.bytes.length + 1);
      this.bytes.forEach((bytes, each) => (this.bytes_before[each + 1] = this.bytes_before[each] + bytes));
    }
    return this.bytes_before[span];
  }

  /** A byte for each span, and the number of spans found: those that match all words, as in `j.simulated.search`. An
   *  `error` for an unknown field. */
  search(text) {
    const { kernels, programs, origins, kinds, lanes, fields } = this.header;
    const unknown = text.match(/(?:^|\s)([a-z]+):(?!:)/gi)?.find((each) => !fields.includes(each.trim().slice(0, -1).toLowerCase()));
    if (unknown) return { error: `no field ${unknown.trim()} There are ${fields.map((each) => `${each}:`).join(" ")}` };
    const tables = {
      kernel: [kernels.map((name, launch) => `${name} ${programs[launch]}`), this.launch],
      node: [origins.map((names) => names.join(" ")), this.origin],
      kind: [kinds, this.kind],
      unit: [lanes.map(({ name }) => name), null],
    };
    const found = new Uint8Array(this.row.length).fill(1);
    for (const word of text.toLowerCase().split(/\s+/).filter(Boolean)) {
      const field = fields.find((each) => word.startsWith(`${each}:`));
      const rest = field ? word.slice(field.length + 1) : word;
      const asked = (field ? [field] : fields).map((name) => {
        const [names, column] = tables[name];
        return [Uint8Array.from(names, (each) => each.toLowerCase().includes(rest)), column];
      });
      for (const { number } of this.lanes) {
        for (let span = this.lane_first[number]; span < this.lane_first[number + 1]; span++) {
          if (found[span]) found[span] = asked.some(([holds, column]) => holds[column ? column[span] : number]) ? 1 : 0;
        }
      }
    }
    return { marks: found, count: found.reduce((sum, one) => sum + one, 0) };
  }
}
