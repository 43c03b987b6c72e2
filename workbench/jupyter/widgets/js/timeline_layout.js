// The layout of lanes from top to bottom, with the labels beside them. Pure functions.

export const GAP_BETWEEN_GROUPS = 7;
const ROOMY = { lane: 26, bar: 16, strip: 4 };
const NARROW = { lane: 19, bar: 11, strip: 3 };
const HEAD = 22;
const CHANNEL = 12;
const FOLDED = 26;
const LANES_AT_EASE = 14; // with more lanes each is lower, so that a machine's cores are seen together

/** The core in a unit's name: `core0` of `core0.dma1`; empty on a machine with one core. */
export function coreOf(name) {
  return name.includes(".") ? name.slice(0, name.indexOf(".")) : "";
}

/** Rows of the picture: `{ kind, top, height, label, lanes, ... }`. A folded core is one row of all its lanes. */
export function rowsOf(data, folded) {
  const { lanes, header } = data;
  const sizes = lanes.length > LANES_AT_EASE ? NARROW : ROOMY;
  const rows = [];
  let top = 4;
  let last = null;
  const put = (row, height) => {
    rows.push({ ...row, top, height });
    top += height;
  };
  for (const lane of lanes) {
    const core = coreOf(lane.name);
    if (core && core !== coreOf(last?.name ?? "")) {
      top += last ? GAP_BETWEEN_GROUPS : 0;
      const own = lanes.filter((each) => coreOf(each.name) === core);
      const busy = own.reduce((sum, each) => sum + each.busy, 0) / own.length;
      put({ kind: "head", label: core, fold: core, folded: folded.has(core), note: `${own.length} units`, busy }, HEAD);
      if (folded.has(core)) put({ kind: "mean", label: "mean", lanes: own, core, busy, ...ROOMY }, FOLDED);
    } else if (last && last.group !== lane.group && !folded.has(core)) {
      top += GAP_BETWEEN_GROUPS;
    }
    last = lane;
    if (!core || !folded.has(core)) {
      const label = core ? lane.name.slice(core.length + 1) : lane.name;
      put({ kind: "lane", label, lanes: [lane], busy: lane.busy, ...sizes }, sizes.lane);
    }
  }
  const { count } = header.channels;
  if (count) {
    top += GAP_BETWEEN_GROUPS;
    const note = `${count} channels`;
    put({ kind: "head", label: "memory", fold: "memory", folded: folded.has("memory"), note }, HEAD);
    const all = Array.from({ length: count }, (_, channel) => channel);
    if (folded.has("memory")) put({ kind: "channel", label: "mean", channels: all, bar: 20 }, FOLDED);
    else for (const channel of all) put({ kind: "channel", label: `channel ${channel}`, channels: [channel], bar: 10 }, CHANNEL);
  }
  return { rows, height: top + 4 };
}

/** The row at a height; undefined between rows. */
export function rowAt(rows, y) {
  return rows.find((row) => row.top <= y && y < row.top + row.height);
}

/** The row that a lane is drawn in: its own, or that of its folded core. */
export function rowOfLane(rows, lane) {
  return rows.find((row) => row.lanes?.some((each) => each.number === lane));
}
