// One launch as Python packed it (workbench/explaining/views/scratchpads/replay_columns.py), and its state in a cycle:
// the same as j.simulated.at(cycle). Cycles count from the launch's begin. No object is created anew for each cycle.

import { firstWhere } from "./common.js";
import { columnsOf } from "./timeline_data.js";
import { firstAfter } from "./timeline_paint.js";

export const TOUCH_READS = 1;
export const TOUCH_WRITES = 2;
const NOTHING_HELD = -1;

export class ReplayData {
  constructor(block) {
    this.header = block.header;
    Object.assign(this, columnsOf(block));
    const { slots, grids } = this.header;
    this.length = this.header.end - this.header.begin;
    this.now = {
      cycle: -1,
      working: [], // instructions that hold a unit
      life: new Int32Array(slots.length), // of each slot what it holds
      written: slots.map(() => []), // of each slot the instructions that write it
      read: slots.map(() => []),
      access: new Uint8Array(this.place_grid.length), // of each place: TOUCH_READS, TOUCH_WRITES or both by work that goes on
      moving: new Uint8Array(this.place_grid.length), // 1 where that is a move from or to DRAM
      moved: new Uint32Array(this.place_grid.length), // moves that have begun
      bytes: 0, // of the slots that hold something, on the fullest core
    };
    this.marks = null;
    const held = this.life_end.reduce((sum, end, life) => sum + end - this.life_start[life], 0);
    this.averageLife = held / Math.max(this.life_end.length, 1);
    this.livesOf = slots.map((_, slot) => indicesWhere(this.life_slot, (each) => each === slot));
    this.movesOf = grids.map((_, grid) => this.movesInTime(grid));
    this.placesOf = grids.map((_, grid) => indicesWhere(this.place_grid, (each) => each === grid));
  }

  /** The moves of a tensor as rows of the visits, by when they start. */
  movesInTime(grid) {
    const starts = (visit) => this.start[this.visit_instruction[visit]];
    const found = indicesWhere(this.visit_place, (place, visit) => this.visit_is_move[visit] && this.place_grid[place] === grid);
    return found.sort((one, other) => starts(one) - starts(other) || one - other);
  }

  over(instruction, access) {
    return access & TOUCH_WRITES ? this.done[instruction] : this.until[instruction];
  }

  /** The state in a cycle; the next call overwrites the returned object. */
  at(cycle) {
    const { now } = this;
    if (now.cycle === cycle) return now;
    now.cycle = cycle;
    now.working.length = 0;
    for (let row = 0; row < this.start.length; row++) {
      if (this.start[row] <= cycle && cycle < this.until[row]) now.working.push(row);
    }
    this.findLives(cycle);
    this.findUses(cycle);
    this.findVisits(cycle);
    return now;
  }

  findLives(cycle) {
    const { now } = this;
    const held = new Map(); // by core: each core has its own scratchpad
    now.life.fill(NOTHING_HELD);
    for (let life = 0; life < this.life_slot.length; life++) {
      if (this.life_start[life] > cycle || cycle >= this.life_end[life]) continue;
      now.life[this.life_slot[life]] = life;
      const { core, bytes } = this.header.slots[this.life_slot[life]];
      held.set(core, (held.get(core) ?? 0) + bytes);
    }
    now.bytes = Math.max(0, ...held.values());
  }

  findUses(cycle) {
    const { written, read } = this.now;
    for (let slot = 0; slot < written.length; slot++) written[slot].length = read[slot].length = 0;
    for (let use = 0; use < this.use_slot.length; use++) {
      const [instruction, access, slot] = [this.use_instruction[use], this.use_access[use], this.use_slot[use]];
      if (this.start[instruction] > cycle || cycle >= this.over(instruction, access)) continue;
      if (access & TOUCH_WRITES && !written[slot].includes(instruction)) written[slot].push(instruction);
      if (access & TOUCH_READS && !read[slot].includes(instruction)) read[slot].push(instruction);
    }
  }

  findVisits(cycle) {
    const { access, moving, moved } = this.now;
    access.fill(0);
    moving.fill(0);
    moved.fill(0);
    for (let visit = 0; visit < this.visit_place.length; visit++) {
      const instruction = this.visit_instruction[visit];
      if (this.start[instruction] > cycle) continue;
      const place = this.visit_place[visit];
      moved[place] += this.visit_is_move[visit];
      if (cycle >= this.over(instruction, this.visit_access[visit])) continue;
      access[place] |= this.visit_access[visit];
      moving[place] |= this.visit_is_move[visit];
    }
  }

  /** The counts of a tensor: tiles moved at least once, tiles, moves so far, moves in all. */
  soFar(grid, now) {
    const sums = { visited: 0, tiles: 0, moved: 0, moves: 0 };
    for (const place of this.placesOf[grid]) {
      if (!this.place_moves[place]) continue;
      sums.tiles++;
      sums.visited += now.moved[place] > 0;
      sums.moved += now.moved[place];
      sums.moves += this.place_moves[place];
    }
    return sums;
  }

  /** The places of a tensor's latest moves, the newest last. */
  trail(grid, cycle, most) {
    const moves = this.movesOf[grid];
    const begun = firstWhere(0, moves.length, (move) => this.start[this.visit_instruction[moves[move]]] > cycle);
    return moves.slice(Math.max(0, begun - most), begun).map((visit) => this.visit_place[visit]);
  }

  /** The next cycle in which an instruction starts, ends or is complete, or the one before. */
  change(cycle, by) {
    const { changes } = this;
    const after = firstAfter(changes, cycle);
    if (by > 0) return changes[Math.min(after, changes.length - 1)];
    return changes[Math.max(0, changes[after - 1] === cycle ? after - 2 : after - 1)];
  }

  /** Marks the lives, slots and places that these spans of the run touch; null marks nothing. */
  mark(spans) {
    const first = this.header.first_span;
    const rows = new Uint8Array(this.start.length);
    for (const span of spans ?? []) if (span >= first && span < first + rows.length) rows[span - first] = 1;
    const marks = {
      lives: new Uint8Array(this.life_slot.length),
      slots: new Uint8Array(this.header.slots.length),
      places: new Uint8Array(this.place_grid.length),
    };
    this.use_instruction.forEach((row, use) => {
      marks.lives[this.use_life[use]] |= rows[row];
      marks.slots[this.use_slot[use]] |= rows[row];
    });
    this.visit_instruction.forEach((row, visit) => (marks.places[this.visit_place[visit]] |= rows[row]));
    this.marks = rows.includes(1) ? marks : null;
  }

  /** The row of the kernel's tiles for a place: that of current work, else the first. */
  touchOf(place, cycle) {
    let found = -1;
    for (let visit = 0; visit < this.visit_place.length; visit++) {
      if (this.visit_place[visit] !== place) continue;
      const instruction = this.visit_instruction[visit];
      if (found < 0) found = this.visit_touch[visit];
      if (this.start[instruction] <= cycle && cycle < this.over(instruction, this.visit_access[visit])) return this.visit_touch[visit];
    }
    return found;
  }

  /** `LOAD #3`. */
  named(instruction) {
    return `${this.header.kinds[this.kind[instruction]]} #${instruction}`;
  }

  /** Several instructions in at most `letters` letters: `MATMUL #7 #8`, else `#7 #8`, else their number. */
  namedShort(instructions, letters) {
    const numbers = instructions.map((row) => `#${row}`).join(" ");
    const kinds = [...new Set(instructions.map((row) => this.header.kinds[this.kind[row]]))].join(", ");
    return [`${kinds} ${numbers}`, numbers].find((text) => text.length <= letters) ?? `${instructions.length} of them`;
  }

  /** `buf0[1]`. */
  slotName(slot) {
    const { buffer, slot: number } = this.header.slots[slot];
    return `${buffer}[${number}]`;
  }
}

function indicesWhere(column, fits) {
  const found = [];
  column.forEach((value, at) => fits(value, at) && found.push(at));
  return found;
}
