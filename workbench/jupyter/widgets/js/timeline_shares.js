// The share of any stretch of time that the pieces of a lane fill, exactly and at any zoom. Pure functions of columns.
// The pieces of a lane are sorted and do not overlap. Running sums by group are kept at every 16th piece. The cycles
// that each group fills before a moment are one look at the sums and at most 16 additions, however many pieces there
// are; a stretch of time is the difference of two moments.

const PIECES_A_SUM = 16; // fewer would be quicker, but take more memory

/** The pieces `first` to `last` of columns `begin`, `end` and `group` (a number below `groups`). */
export class Shares {
  constructor(columns, groups, first, last) {
    Object.assign(this, columns);
    this.groups = groups;
    this.first = first;
    this.last = last;
    const blocks = Math.ceil((last - first) / PIECES_A_SUM);
    this.sums = new Float64Array((blocks + 1) * groups);
    for (let block = 0; block < blocks; block++) {
      const from = first + block * PIECES_A_SUM;
      const here = block * groups;
      for (let each = 0; each < groups; each++) this.sums[here + groups + each] = this.sums[here + each];
      this.add(from, Math.min(from + PIECES_A_SUM, last), this.sums, here + groups);
    }
  }

  /** Adds the lengths of some pieces to the sums that begin at `at`. */
  add(from, until, sums, at) {
    const { begin, end, group } = this;
    for (let piece = from; piece < until; piece++) sums[at + group[piece]] += end[piece] - begin[piece];
  }

  /** The first piece that ends after a moment; the search starts at piece `low`, and no piece before `low` may end
   *  after it. */
  pieceAt(moment, low = this.first) {
    let high = this.last;
    for (let step = 1; low + step < high; step *= 2) {
      if (this.end[low + step] > moment) high = low + step;
    }
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.end[middle] > moment) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** Writes the cycles that each group fills before a moment to `sums`; `piece` is the result of `pieceAt`. */
  before(moment, piece, sums) {
    const { groups, first, last } = this;
    const block = Math.floor((piece - first) / PIECES_A_SUM);
    for (let each = 0; each < groups; each++) sums[each] = this.sums[block * groups + each];
    this.add(first + block * PIECES_A_SUM, piece, sums, 0);
    if (piece < last && this.begin[piece] < moment) sums[this.group[piece]] += moment - this.begin[piece];
  }

  /** The cycles that each group fills between two moments. */
  between(begin, end) {
    const early = new Float64Array(this.groups);
    const late = new Float64Array(this.groups);
    this.before(begin, this.pieceAt(begin), early);
    this.before(end, this.pieceAt(end), late);
    return late.map((cycles, each) => cycles - early[each]);
  }

  /** For each of `columns` equal stretches from `begin` to `end`: the first piece that ends after its left edge. The
   *  last entry is for the last right edge. */
  places(begin, end, columns) {
    const found = new Uint32Array(columns + 1);
    let last = this.first;
    for (let edge = 0; edge <= columns; edge++) {
      last = this.pieceAt(begin + ((end - begin) * edge) / columns, last);
      found[edge] = last;
    }
    return found;
  }

  /** The share of the stretches `from` to `until` that each group fills: group after group. */
  shares(begin, end, columns, places, from, until) {
    const { groups } = this;
    const count = until - from;
    const width = (end - begin) / columns;
    const found = new Float32Array(groups * count);
    let early = new Float64Array(groups);
    let late = new Float64Array(groups);
    this.before(begin + width * from, places[from], early);
    for (let column = 0; column < count; column++) {
      const edge = from + column + 1;
      this.before(begin + width * edge, places[edge], late);
      for (let each = 0; each < groups; each++) found[each * count + column] = (late[each] - early[each]) / width;
      [early, late] = [late, early];
    }
    return found;
  }
}

/** The mean of the shares of several lanes, for all of `columns` equal stretches: group after group. */
export function meanShares(lanes, begin, end, columns) {
  const mean = new Float32Array((lanes[0]?.groups ?? 0) * columns);
  for (const lane of lanes) {
    const shares = lane.shares(begin, end, columns, lane.places(begin, end, columns), 0, columns);
    for (let place = 0; place < mean.length; place++) mean[place] += shares[place] / lanes.length;
  }
  return mean;
}

const NARROW_COLUMNS = 4; // if several pieces end within so many columns, they are too narrow to draw one by one

/** A byte for each column: 1 if it is crowded, that is, if the pieces that end in it are too narrow to draw one by one.
 *  */
export function crowdedColumns(places) {
  const columns = places.length - 1;
  const crowded = new Uint8Array(columns);
  for (let column = 0; column < columns; column++) {
    const until = Math.min(column + NARROW_COLUMNS, columns);
    if (places[until] - places[column] >= 2) crowded.fill(1, column, until);
  }
  return crowded;
}

/** Runs `[from, until]` of crowded columns. */
export function runsOf(crowded) {
  const runs = [];
  for (let column = 0; column < crowded.length; column++) {
    if (!crowded[column]) continue;
    if (runs.length && runs.at(-1)[1] === column) runs.at(-1)[1] = column + 1;
    else runs.push([column, column + 1]);
  }
  return runs;
}

/** Calls `draw(piece)` for the pieces from `begin` to `end` that reach beyond crowded columns. */
export function eachDrawn(shares, begin, end, crowded, places, draw) {
  const columns = crowded.length;
  const scale = columns / (end - begin);
  let piece = places[0];
  while (piece < shares.last && shares.begin[piece] < end) {
    const column = Math.max(0, Math.floor((shares.begin[piece] - begin) * scale));
    const next = column < columns ? places[column + 1] : piece;
    const until = Math.min(columns - 1, Math.floor((shares.end[piece] - begin) * scale));
    if (next - piece >= 2 && crowded[column]) piece = next; // all of these end in this one column
    else if (allCrowded(crowded, column, until)) piece++;
    else draw(piece++);
  }
}

function allCrowded(crowded, from, until) {
  for (let column = from; column <= until; column++) if (!crowded[column]) return false;
  return true;
}
