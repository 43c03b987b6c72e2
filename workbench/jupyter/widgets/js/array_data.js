// One matmul on its array as numbers, packed by `workbench.explaining.views.timelines.arrays`, and the elements at work
// in a cycle.
import { clamped } from "./common.js";
import { columnsOf } from "./timeline_data.js";

/** The work of the array in each cycle, computed as in `workbench.explaining.views.timelines.arrays`. */
export class ArrayWalk {
  constructor(block) {
    this.header = block.header;
    Object.assign(this, columnsOf(block));
    this.count = this.enters.length;
  }

  /** The last tile whose column is not after a cycle; the first if there is none. */
  lastBegun(column, cycle) {
    let found = 0;
    for (let tile = 0; tile < this.count && column[tile] <= cycle; tile++) found = tile;
    return found;
  }

  movedIn(tile, cycle) {
    return clamped(cycle - this.moves_in[tile] + 1, 0, this.moved_in[tile]);
  }

  streamed(tile, cycle) {
    return clamped(cycle - this.enters[tile] + 1, 0, this.streams[tile]);
  }

  /** The tiles that may have an element at work. */
  working(cycle) {
    const found = [];
    for (let tile = 0; tile < this.count && this.enters[tile] <= cycle; tile++) {
      if (cycle < this.enters[tile] + this.streams[tile] + this.rows[tile] + this.columns[tile]) found.push(tile);
    }
    return found;
  }

  /** The number of elements that multiply. */
  atWork(cycle) {
    return this.working(cycle).reduce((sum, tile) => {
      const first = cycle - this.enters[tile];
      const upTo = (last) => diagonals(last, this.rows[tile], this.columns[tile]);
      return sum + upTo(first) - upTo(first - this.streams[tile]);
    }, 0);
  }

  doing(cycle) {
    const going = new Set();
    for (let tile = 0; tile < this.count && this.moves_in[tile] <= cycle; tile++) {
      const over = this.enters[tile] + this.streams[tile];
      if (cycle < this.moves_in[tile] + this.moved_in[tile]) going.add("preload");
      if (this.enters[tile] <= cycle && cycle < over) going.add("stream");
      if (over <= cycle && cycle < this.out[tile]) going.add("drain");
    }
    if (going.has("stream")) going.delete("drain"); // results that leave at the same time cost nothing
    const known = this.header.parts.map(([name]) => name).filter((name) => going.has(name));
    return known.length ? known : [cycle < this.header.length ? "switch" : "done"];
  }

  /** A cycle of the array as a cycle of the run. */
  ofRun(cycle) {
    const [over, under] = this.header.clock;
    return this.header.phase + Math.ceil(((cycle - this.header.zero) * under) / over);
  }
}

/** The number of elements whose row and column add up to at most `last`. */
function diagonals(last, rows, columns) {
  const triangle = (side) => (side > 0 ? (side * (side + 1)) / 2 : 0);
  const side = last + 1;
  return triangle(side) - triangle(side - rows) - triangle(side - columns) + triangle(side - rows - columns);
}

/** The state of each element: 0 nothing, 1 holds what moved in or its sum, 2 multiplies, 3 multiplies for the tile
 *  after. */
export function elementStates(walk, cycle) {
  const { rows, wide } = walk.header;
  const states = new Uint8Array(rows * wide);
  const incoming = walk.lastBegun(walk.moves_in, cycle);
  const now = walk.lastBegun(walk.enters, cycle);
  const begun = cycle >= walk.enters[0];
  const held = begun ? walk.rows[now] : walk.movedIn(incoming, cycle);
  const holds = begun ? now : incoming;
  const fill = (tile, i, from, until, state) => {
    const [first, end] = [Math.max(from, 0), Math.min(until, walk.columns[tile])];
    if (end > first) states.fill(state, i * wide + first, i * wide + end);
  };
  if (walk.header.holds) for (let i = 0; i < held; i++) fill(holds, i, 0, wide, 1);
  for (let tile = 0; walk.header.sums_stay && tile < walk.count && walk.enters[tile] <= cycle; tile++) {
    const over = cycle - walk.enters[tile] - walk.streams[tile]; // the diagonal up to which sums are complete
    for (let i = 0; cycle < walk.out[tile] && i < walk.rows[tile]; i++) fill(tile, i, 0, over - i + 1, 1);
  }
  const working = walk.working(cycle);
  for (const tile of working) {
    const colour = tile === working[0] ? 2 : 3;
    const first = cycle - walk.enters[tile];
    for (let i = 0; i < walk.rows[tile]; i++) {
      fill(tile, i, first - walk.streams[tile] + 1 - i, first - i + 1, colour);
    }
  }
  return states;
}
