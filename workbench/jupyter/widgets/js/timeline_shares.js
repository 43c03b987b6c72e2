// How much of any stretch of time the pieces of a lane fill, exactly and at any zoom. Pure functions of columns.
//
// The pieces of a lane are sorted and do not overlap. Running sums by group stand at every 64th piece, so the cycles
// that each group fills before any moment are one look at the sums and at most 64 additions, however many pieces there
// are; a stretch of time is the difference of two moments.

const PIECES_A_SUM = 64;

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

  /** The first piece that ends after a moment. */
  pieceAt(moment) {
    let low = this.first;
    let high = this.last;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.end[middle] > moment) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** Writes the cycles that each group fills before a moment to `sums`; `piece` is what `pieceAt` gives. */
  before(moment, piece, sums) {
    const { groups, first, last } = this;
    const block = Math.floor((piece - first) / PIECES_A_SUM);
    for (let each = 0; each < groups; each++) sums[each] = this.sums[block * groups + each];
    this.add(first + block * PIECES_A_SUM, piece, sums, 0);
    if (piece < last && this.begin[piece] < moment) sums[this.group[piece]] += moment - this.begin[piece];
  }

  /** Cycles that each group fills between two moments. */
  between(begin, end) {
    const early = new Float64Array(this.groups);
    const late = new Float64Array(this.groups);
    this.before(begin, this.pieceAt(begin), early);
    this.before(end, this.pieceAt(end), late);
    return late.map((cycles, each) => cycles - early[each]);
  }

  /** For each of `columns` equal stretches from `begin` to `end`: the first piece that ends after its left edge. There
   *  is one more for the last right edge. */
  places(begin, end, columns) {
    const found = new Uint32Array(columns + 1);
    for (let edge = 0; edge <= columns; edge++) found[edge] = this.pieceAt(begin + ((end - begin) * edge) / columns);
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

/** Runs `[from, until]` of columns in which pieces are too narrow to draw one by one: two or more end in each. */
export function crowdedRuns(places) {
  const runs = [];
  for (let column = 0; column + 1 < places.length; column++) {
    if (places[column + 1] - places[column] < 2) continue;
    if (runs.length && runs.at(-1)[1] === column) runs.at(-1)[1] = column + 1;
    else runs.push([column, column + 1]);
  }
  return runs;
}

/** Calls `draw(piece)` for the pieces from `begin` to `end`, without those that lie in one crowded column. */
export function eachDrawn(shares, begin, end, columns, places, draw) {
  const width = (end - begin) / columns;
  let piece = places[0];
  while (piece < shares.last && shares.begin[piece] < end) {
    const column = Math.max(0, Math.floor((shares.begin[piece] - begin) / width));
    const next = column < columns ? places[column + 1] : piece;
    if (next - piece >= 2) piece = next;
    else draw(piece++);
  }
}
