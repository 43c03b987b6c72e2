// One matmul on its systolic array, cycle by cycle. Times are cycles of the array's clock since the first of them.
import { atEnd, colourOf, element, grouped, oncePerFrame, onKeys, watchSize, watchTheme } from "./common.js";
import { columnsOf } from "./timeline_data.js";

const MOST_CELLS = 128; // a side; of larger arrays a cell stands for several elements
const ARRAY_SIDE = 264; // pixels
const GUTTER = 12; // beside the array: what waits in it, what leaves it
const TILE_ROW = 12;
const MOST_TILE_ROWS = 12;
const TILE_LEFT = 34;
const ARRAY_SPEEDS = [1, 10, 100, 1000, 10000]; // cycles a second
const PLAY_SECONDS = 20; // the slowest speed that takes no longer is chosen at first
const LINES_FROM = 6; // pixels of a cell, from which on cells are told apart by lines

/** What the array does in a cycle: as `workbench.views.arrays` says, for a picture of every cycle. */
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
    return Math.min(Math.max(cycle - this.moves_in[tile] + 1, 0), this.moved_in[tile]);
  }

  streamed(tile, cycle) {
    return Math.min(Math.max(cycle - this.enters[tile] + 1, 0), this.streams[tile]);
  }

  /** Tiles of which an element may be at work. */
  working(cycle) {
    const found = [];
    for (let tile = 0; tile < this.count && this.enters[tile] <= cycle; tile++) {
      if (cycle < this.enters[tile] + this.streams[tile] + this.rows[tile] + this.columns[tile]) found.push(tile);
    }
    return found;
  }

  /** Elements that multiply. */
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
    const known = this.header.parts.map(([name]) => name).filter((name) => going.has(name));
    return known.length ? known : [cycle < this.header.length ? "switch" : "done"];
  }

  /** A cycle of the run. */
  ofRun(cycle) {
    const [over, under] = this.header.clock;
    return this.header.phase + Math.ceil(((cycle - this.header.zero) * under) / over);
  }
}

/** Elements whose row and column add up to at most `last`. */
function diagonals(last, rows, columns) {
  const triangle = (side) => (side > 0 ? (side * (side + 1)) / 2 : 0);
  const side = last + 1;
  return triangle(side) - triangle(side - rows) - triangle(side - columns) + triangle(side - rows - columns);
}

/** One matmul: in the lab that of the selected span, else the nearest that starts before it. */
export function createArray(host, { link, signal, spans = () => [] }) {
  const root = element("div", { class: "wb-array" });
  host.append(root);
  const parts = makeArrayParts(root);
  let matmuls = null; // their rows of the events, by when they start
  let walk = null;
  let at = 0;
  let playing = 0;
  let speed = ARRAY_SPEEDS[0];

  const paint = oncePerFrame(() => {
    if (!walk || !parts.body.clientWidth) return;
    paintArray(parts.grid, root, walk, at);
    paintArrayTiles(parts.tiles, parts.body, walk, at);
    tellCycle(parts, walk, at);
  }, signal);

  function go(cycle) {
    at = Math.min(Math.max(Math.round(cycle), 0), walk?.header.length ?? 0);
    parts.slider.value = at;
    paint();
  }

  function toTile(by) {
    const now = walk.lastBegun(walk.enters, at);
    const next = by < 0 && at > walk.enters[now] ? now : now + by;
    go(next < 0 ? 0 : next >= walk.count ? walk.header.length : walk.enters[next]);
  }

  function play() {
    if (playing) {
      cancelAnimationFrame(playing);
      playing = 0;
      tellPlaying();
      return;
    }
    if (at >= walk.header.length) at = 0;
    let exact = at;
    let before = performance.now();
    const frame = (now) => {
      exact += ((now - before) * speed) / 1000;
      before = now;
      go(exact);
      playing = at < walk.header.length ? requestAnimationFrame(frame) : 0;
      if (!playing) tellPlaying();
    };
    playing = requestAnimationFrame(frame);
    tellPlaying();
  }

  function tellPlaying() {
    parts.play.textContent = playing ? "❚❚ stop" : "▶ play";
    parts.play.setAttribute("aria-pressed", String(Boolean(playing)));
  }

  async function open() {
    const found = await link.ask("open");
    if (!found || signal.aborted) return;
    matmuls = columnsOf({ header: found.answer.header, data: found.buffers[0] });
    parts.why.textContent = matmuls.row.length ? "" : "No array works in this run: it has no matmul.";
    parts.body.hidden = !matmuls.row.length;
    if (matmuls.row.length) await load(wanted() ?? found.answer.first);
  }

  /** The matmul of the selection; null where nothing is selected. */
  function wanted() {
    const rows = spans();
    if (!rows.length) return null;
    const places = [...rows].map((row) => matmuls.row.indexOf(row)).filter((place) => place >= 0);
    if (places.length) return matmuls.row[Math.min(...places)];
    return matmuls.before[rows[0]];
  }

  async function load(span) {
    if (span === walk?.header.span) return;
    const found = await link.ask("walk", { span });
    if (!found || signal.aborted) return;
    if (playing) play();
    walk = new ArrayWalk({ header: found.answer.header, data: found.buffers[0] });
    fillArray(parts, walk, go);
    parts.speed.value = speed =
      ARRAY_SPEEDS.find((each) => walk.header.length / each <= PLAY_SECONDS) ?? ARRAY_SPEEDS.at(-1);
    go(walk.enters[0] + Math.floor((walk.rows[0] + walk.columns[0]) / 2)); // the front is half across
  }

  function selected() {
    const span = matmuls?.row.length ? wanted() : null;
    if (span !== null) load(span);
  }

  parts.before.addEventListener("click", () => load(walk.header.before), { signal });
  parts.after.addEventListener("click", () => load(walk.header.after), { signal });
  parts.play.addEventListener("click", play, { signal });
  parts.slider.addEventListener("input", () => go(Number(parts.slider.value)), { signal });
  parts.speed.addEventListener("change", () => (speed = Number(parts.speed.value)), { signal });
  for (const [button, act] of [
    [parts.tileBefore, () => toTile(-1)],
    [parts.cycleBefore, () => go(at - 1)],
    [parts.cycleAfter, () => go(at + 1)],
    [parts.tileAfter, () => toTile(1)],
  ]) {
    button.addEventListener("click", act, { signal });
  }
  parts.tiles.addEventListener("pointerdown", (event) => {
    const wide = parts.tiles.clientWidth - TILE_LEFT;
    go(((event.offsetX - TILE_LEFT) / wide) * walk.header.length);
  }, { signal });
  onKeys(
    root,
    {
      ArrowLeft: () => go(at - 1),
      ArrowRight: () => go(at + 1),
      PageUp: () => toTile(-1),
      PageDown: () => toTile(1),
      Home: () => go(0),
      End: () => go(walk.header.length),
      p: play,
    },
    signal,
  );
  watchSize(parts.body, paint, signal);
  watchTheme(paint, signal);
  atEnd(signal, () => cancelAnimationFrame(playing));
  open();
  return { selected, shown: selected, go, get walk() { return walk; }, get at() { return at; } };
}

function makeArrayParts(root) {
  const button = (text, told) => element("button", { type: "button", title: told, "aria-label": told }, text);
  const parts = {
    why: element("p", { class: "soft" }, "Opening the array…"),
    body: element("div", { hidden: true }),
    title: element("b"),
    before: button("◀", "the matmul before on this array"),
    after: button("▶", "the next matmul on this array"),
    grid: element("canvas", { role: "img", tabindex: "0" }),
    facts: element("dl", { class: "ex-facts" }),
    formulas: element("tbody"),
    sum: element("p"),
    symbols: element("p", { class: "soft" }),
    slider: element("input", { type: "range", min: 0, step: 1, "aria-label": "cycle of the array" }),
    tileBefore: button("|‹", "the tile before (PageUp)"),
    cycleBefore: button("‹", "a cycle back (←)"),
    play: button("▶ play", "play and stop (p)"),
    cycleAfter: button("›", "a cycle on (→)"),
    tileAfter: button("›|", "the next tile (PageDown)"),
    speed: element("select", { "aria-label": "cycles a second" }),
    tiles: element("canvas", { role: "img", "aria-label": "tiles over time; press to go there" }),
    told: element("p", { class: "ex-told" }),
  };
  parts.speed.append(...ARRAY_SPEEDS.map((each) => element("option", { value: each }, `${grouped(each)} cycles/s`)));
  const heads = ["part", "formula", "numbers", "cycles"].map((name) => element("th", { scope: "col" }, name));
  const table = element("table", { class: "t" }, element("thead", {}, element("tr", {}, ...heads)), parts.formulas);
  const legend = element("div", { class: "legend" }, ...[
    ["k-MATMUL", "multiplies"],
    ["k-VECTOR", "multiplies for the next tile"],
    ["k-LOAD", "moves in, or waits in the array"],
    ["k-STORE", "results on their way out"],
  ].map(([colour, told]) => element("span", {}, element("i", { style: `background:var(--${colour})` }), told)));
  const controls = element("div", { class: "ex-controls" }, parts.tileBefore, parts.cycleBefore, parts.play,
    parts.cycleAfter, parts.tileAfter, parts.slider, parts.speed);
  const front = element("div", { class: "ex-front" }, parts.grid);
  const scroll = element("div", { class: "scroll", tabindex: "0" }, table);
  const words = element("div", { class: "ex-words" }, parts.facts, scroll, parts.sum, parts.symbols);
  parts.body.append(
    element("div", { class: "ex-top" }, parts.before, parts.after, parts.title),
    element("div", { class: "ex-beside" }, front, words),
    controls, parts.told, parts.tiles, legend,
  );
  root.append(parts.why, parts.body);
  return parts;
}

function fillArray(parts, walk, go) {
  const { header } = walk;
  parts.title.textContent = header.title;
  parts.before.disabled = header.before === null;
  parts.after.disabled = header.after === null;
  parts.slider.max = header.length;
  parts.facts.replaceChildren(...header.facts.flatMap(([name, told]) => [element("dt", {}, name), element("dd", {}, told)]));
  const starts = { preload: walk.moves_in[0], stream: walk.enters[0], drain: walk.enters.at(-1) + walk.streams.at(-1) };
  parts.formulas.replaceChildren(...header.parts.map(([name, formula, numbers, cycles]) => {
    const jump = element("button", { type: "button", title: `go to where it begins` }, name);
    jump.addEventListener("click", () => go(starts[name]));
    return element("tr", { "data-part": name }, element("td", {}, jump), element("td", {}, formula),
      element("td", { class: "w" }, numbers), element("td", { class: "r" }, grouped(cycles)));
  }));
  parts.sum.textContent = header.sum;
  parts.symbols.textContent = header.symbols;
}

function tellCycle(parts, walk, cycle) {
  const { header } = walk;
  const tile = walk.lastBegun(walk.enters, cycle);
  const incoming = walk.lastBegun(walk.moves_in, cycle);
  const doing = walk.doing(cycle);
  const [all, busy] = [header.rows * header.wide, walk.atWork(cycle)];
  const what = header.sums_stay ? "sums" : "weights";
  const words = [
    `cycle ${grouped(cycle)} of ${grouped(header.length)}, ${grouped(walk.ofRun(cycle))} of the run`,
    doing.join(", "),
    walk.moved_in[incoming] && `${what} of tile ${incoming}: ${walk.movedIn(incoming, cycle)} of ${walk.moved_in[incoming]} rows in`,
    `tile ${tile} of ${walk.count}: ${grouped(walk.streamed(tile, cycle))} of ${grouped(walk.streams[tile])} streamed`,
    `${grouped(busy)} of ${grouped(all)} elements multiply (${Math.round((100 * busy) / all)}%)`,
  ];
  parts.told.textContent = words.filter(Boolean).join(" · ");
  parts.grid.setAttribute("aria-label", `the array at ${parts.told.textContent}`);
  for (const row of parts.formulas.children) row.classList.toggle("now", doing.includes(row.dataset.part));
}

/** A canvas as sharp as the screen; returns its context. */
export function sizedContext(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  return context;
}

/** What each element does: 0 nothing, 1 holds what moved in, 2 multiplies, 3 multiplies for the tile after. */
export function elementStates(walk, cycle) {
  const { rows, wide } = walk.header;
  const states = new Uint8Array(rows * wide);
  const incoming = walk.lastBegun(walk.moves_in, cycle);
  const now = walk.lastBegun(walk.enters, cycle);
  const begun = cycle >= walk.enters[0];
  const held = begun ? walk.rows[now] : walk.movedIn(incoming, cycle);
  const holds = begun ? now : incoming;
  for (let i = 0; i < held; i++) states.fill(1, i * wide, i * wide + walk.columns[holds]);
  const working = walk.working(cycle);
  for (const tile of working) {
    const colour = tile === working[0] ? 2 : 3;
    const first = cycle - walk.enters[tile];
    for (let i = 0; i < walk.rows[tile]; i++) {
      const from = Math.max(first - walk.streams[tile] + 1 - i, 0);
      const until = Math.min(first - i + 1, walk.columns[tile]);
      if (until > from) states.fill(colour, i * wide + from, i * wide + until);
    }
  }
  return states;
}

function paintArray(canvas, root, walk, cycle) {
  const { rows, wide } = walk.header;
  const scale = ARRAY_SIDE / Math.max(rows, wide);
  const [width, height] = [wide * scale, rows * scale];
  const context = sizedContext(canvas, width + 2 * GUTTER, height + 2);
  const named = (name) => colourOf(root, name);
  const colours = [named("raised"), named("k-LOAD"), named("k-MATMUL"), named("k-VECTOR")];
  const parts = colours.map((colour) => colour.match(/[\d.]+/g).slice(0, 3).map(Number));
  parts[1] = parts[1].map((each, place) => 0.35 * each + 0.65 * parts[0][place]);
  const block = Math.ceil(Math.max(rows, wide) / MOST_CELLS);
  const [down, across] = [Math.ceil(rows / block), Math.ceil(wide / block)];
  const small = new OffscreenCanvas(across, down);
  const image = new ImageData(across, down);
  const states = elementStates(walk, cycle);
  const counts = new Float32Array(down * across * 4);
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < wide; j++) {
      counts[(Math.floor(i / block) * across + Math.floor(j / block)) * 4 + states[i * wide + j]]++;
    }
  }
  for (let cell = 0; cell < down * across; cell++) {
    const of = counts.subarray(cell * 4, cell * 4 + 4);
    const all = of[0] + of[1] + of[2] + of[3];
    for (let part = 0; part < 3; part++) {
      image.data[cell * 4 + part] = parts.reduce((sum, colour, state) => sum + (of[state] / all) * colour[part], 0);
    }
    image.data[cell * 4 + 3] = 255;
  }
  small.getContext("2d").putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(small, GUTTER, 1, across * block * scale, down * block * scale);
  context.strokeStyle = named("line");
  context.lineWidth = 1;
  if (block * scale >= LINES_FROM) lineCells(context, walk, scale);
  context.strokeStyle = named("soft");
  context.strokeRect(GUTTER, 1, width, height);
  paintGutters(context, walk, cycle, scale, width, named);
}

function lineCells(context, walk, scale) {
  const { rows, wide } = walk.header;
  context.beginPath();
  for (let i = 1; i < rows; i++) {
    context.moveTo(GUTTER, 1 + i * scale);
    context.lineTo(GUTTER + wide * scale, 1 + i * scale);
  }
  for (let j = 1; j < wide; j++) {
    context.moveTo(GUTTER + j * scale, 1);
    context.lineTo(GUTTER + j * scale, 1 + rows * scale);
  }
  context.stroke();
}

/** To the left the rows that move in behind what is in use, to the right sums that move out. */
function paintGutters(context, walk, cycle, scale, width, named) {
  const incoming = walk.lastBegun(walk.moves_in, cycle);
  const waits = cycle >= walk.enters[0] && incoming > walk.lastBegun(walk.enters, cycle);
  if (waits) {
    context.fillStyle = named("k-LOAD");
    context.fillRect(1, 1, GUTTER - 5, walk.movedIn(incoming, cycle) * scale);
  }
  for (let tile = 0; tile < walk.count; tile++) {
    if (!(walk.complete[tile] <= cycle && cycle < walk.out[tile])) continue;
    context.fillStyle = named("k-STORE");
    context.fillRect(width + GUTTER + 4, 1, GUTTER - 5, (walk.out[tile] - cycle) * scale);
  }
}

function paintArrayTiles(canvas, root, walk, cycle) {
  const width = root.clientWidth;
  const shown = Math.min(walk.count, MOST_TILE_ROWS);
  const height = shown * TILE_ROW + 18;
  const context = sizedContext(canvas, width, height);
  const named = (name) => colourOf(root, name);
  const now = walk.lastBegun(walk.enters, cycle);
  const first = Math.max(0, Math.min(now - Math.floor(shown / 2), walk.count - shown));
  const scale = (width - TILE_LEFT - 2) / walk.header.length;
  const colours = [named("k-LOAD"), named("k-MATMUL"), named("k-STORE")];
  const [ink, soft] = [named("ink"), named("soft")];
  context.font = "10.5px system-ui, sans-serif";
  context.textBaseline = "middle";
  for (let place = 0; place < shown; place++) {
    const tile = first + place;
    const over = walk.enters[tile] + walk.streams[tile];
    const edges = [
      [walk.moves_in[tile], walk.moves_in[tile] + walk.moved_in[tile]],
      [walk.enters[tile], over],
      [over, walk.out[tile]],
    ];
    context.textAlign = "right";
    context.fillStyle = tile === now ? ink : soft;
    context.fillText(grouped(tile), TILE_LEFT - 6, place * TILE_ROW + TILE_ROW / 2);
    edges.forEach(([begin, end], part) => {
      if (end <= begin) return;
      context.fillStyle = colours[part];
      context.fillRect(TILE_LEFT + begin * scale, place * TILE_ROW + 1, Math.max((end - begin) * scale, 0.7), TILE_ROW - 3);
    });
  }
  context.fillStyle = soft;
  context.textAlign = "left";
  context.fillText(grouped(walk.ofRun(0)), TILE_LEFT, height - 8);
  context.textAlign = "right";
  context.fillText(grouped(walk.ofRun(walk.header.length)), width - 2, height - 8);
  context.fillStyle = ink;
  context.fillRect(TILE_LEFT + cycle * scale - 0.75, 0, 1.5, shown * TILE_ROW + 2);
}
