// One matmul on its systolic array, cycle by cycle. Times are cycles of the array's clock since the matmul's first
// cycle.
import { ArrayWalk } from "./array_data.js";
import { ARRAY_COLOURS, TILE_LEFT, paintArray, paintArrayTiles } from "./array_paint.js";
import { coloursOf } from "./canvas.js";
import {
  atEnd, button, clamped, element, factsOf, fillChoices, grouped, legendOf, oncePerFrame, onKeys, watchSize, watchTheme,
} from "./common.js";
import { columnsOf } from "./timeline_data.js";

const ARRAY_SPEEDS = [1, 10, 100, 1000, 10000]; // cycles a second
const PLAY_SECONDS = 20; // the slowest speed that takes no longer is the first choice

/** One matmul: in the lab the selected span's, else the nearest one that starts before the selected span. */
export function createArray(host, { link, signal, spans = () => [] }) {
  const root = element("div", { class: "wb-array" });
  host.append(root);
  const step = (by) => scrub(at + by);
  const turn = (each) => (speed = each);
  const parts = makeArrayParts(root, { load: (which) => load(walk.header[which]), scrub, step, toTile, play, turn });
  let matmuls = null; // the matmuls' rows of the events, by when they start
  let walk = null;
  let meant = null; // the span of the latest request: answers may come late
  let at = 0;
  let playing = 0;
  let speed = ARRAY_SPEEDS[0];

  let palette = null; // of the theme
  const paint = oncePerFrame(() => {
    if (!walk || !parts.body.clientWidth) return;
    palette ??= coloursOf(root, ARRAY_COLOURS);
    paintArray(parts.grid, palette, walk, at);
    paintArrayTiles(parts.tiles, parts.body.clientWidth, palette, walk, at);
    tellCycle(parts, walk, at);
  }, signal);

  function go(cycle) {
    at = clamped(Math.round(cycle), 0, walk?.header.length ?? 0);
    parts.slider.value = at;
    paint();
  }

  /** Goes to the cycle that the user chose, and stops playing. */
  function scrub(cycle) {
    if (playing) play();
    go(cycle);
  }

  function toTile(by) {
    const now = walk.lastBegun(walk.enters, at);
    const next = by < 0 && at > walk.enters[now] ? now : now + by;
    scrub(next < 0 ? 0 : next >= walk.count ? walk.header.length : walk.enters[next]);
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

  /** The matmul of the selection; null if nothing is selected. */
  function wanted() {
    const rows = spans();
    if (!rows.length) return null;
    const places = [...rows].map((row) => matmuls.row.indexOf(row)).filter((place) => place >= 0);
    if (places.length) return matmuls.row[Math.min(...places)];
    return matmuls.before[rows[0]];
  }

  async function load(span) {
    meant = span;
    if (span === walk?.header.span) return;
    const found = await link.ask("walk", { span });
    if (!found || signal.aborted || span !== meant) return;
    if (playing) play();
    walk = new ArrayWalk({ header: found.answer.header, data: found.buffers[0] });
    fillArray(parts, walk, scrub);
    parts.speed.value = speed =
      ARRAY_SPEEDS.find((each) => walk.header.length / each <= PLAY_SECONDS) ?? ARRAY_SPEEDS.at(-1);
    go(walk.enters[0] + Math.floor((walk.rows[0] + walk.columns[0]) / 2)); // the front is half across
  }

  function selected() {
    const span = matmuls?.row.length ? wanted() : null;
    if (span !== null) load(span);
  }

  parts.tiles.addEventListener("pointerdown", (event) => {
    const wide = parts.tiles.clientWidth - TILE_LEFT;
    scrub(((event.offsetX - TILE_LEFT) / wide) * walk.header.length);
  }, { signal });
  onKeys(
    root,
    {
      ArrowLeft: () => step(-1),
      ArrowRight: () => step(1),
      PageUp: () => toTile(-1),
      PageDown: () => toTile(1),
      Home: () => scrub(0),
      End: () => scrub(walk.header.length),
      p: play,
    },
    signal,
  );
  watchSize(parts.body, paint, signal);
  watchTheme(() => {
    palette = null;
    paint();
  }, signal);
  atEnd(signal, () => cancelAnimationFrame(playing));
  open();
  return { selected, shown: selected, go, get walk() { return walk; }, get at() { return at; } };
}

/** The elements of the view; its controls call functions of `act`. */
function makeArrayParts(root, act) {
  const parts = {
    why: element("p", { class: "soft" }, "Opening the array…"),
    body: element("div", { hidden: true }),
    title: element("b"),
    before: button("◀", () => act.load("before"), { label: "the matmul before on this array" }),
    after: button("▶", () => act.load("after"), { label: "the next matmul on this array" }),
    grid: element("canvas", { role: "img", tabindex: "0" }),
    facts: element("dl", { class: "ex-facts" }),
    formulas: element("tbody"),
    sum: element("p"),
    symbols: element("p", { class: "soft" }),
    slider: element("input", { type: "range", min: 0, step: 1, "aria-label": "cycle of the array",
      oninput: () => act.scrub(Number(parts.slider.value)) }),
    play: button("▶ play", act.play, { label: "play and stop (p)" }),
    speed: element("select", { "aria-label": "cycles a second", onchange: () => act.turn(Number(parts.speed.value)) }),
    tiles: element("canvas", { role: "img", "aria-label": "tiles over time; press to go there" }),
    told: element("p", { class: "ex-told" }),
  };
  fillChoices(parts.speed, ARRAY_SPEEDS.map((each) => [each, `${grouped(each)} cycles/s`]), ARRAY_SPEEDS[0]);
  const heads = ["part", "formula", "numbers", "cycles"].map((name) => element("th", { scope: "col" }, name));
  const table = element("table", { class: "t" }, element("thead", {}, element("tr", {}, ...heads)), parts.formulas);
  const legend = legendOf([
    ["k-MATMUL", "multiplies"],
    ["k-VECTOR", "multiplies for the next tile"],
    ["k-LOAD", "moves in, or waits in the array"],
    ["k-STORE", "results on their way out"],
  ].map(([colour, told]) => [{ style: `background:var(--${colour})` }, told]));
  const controls = element("div", { class: "ex-controls" },
    button("|‹", () => act.toTile(-1), { label: "the tile before (PageUp)" }),
    button("‹", () => act.step(-1), { label: "a cycle back (←)" }),
    parts.play,
    button("›", () => act.step(1), { label: "a cycle on (→)" }),
    button("›|", () => act.toTile(1), { label: "the next tile (PageDown)" }),
    parts.slider, parts.speed);
  const front = element("div", { class: "ex-front" }, parts.grid);
  const scroll = element("div", { class: "scroll", tabindex: "0" }, table);
  const words = element("div", { class: "ex-words" }, scroll, parts.sum, parts.symbols);
  parts.body.append(
    element("div", { class: "ex-top" }, parts.before, parts.after, parts.title),
    element("div", { class: "ex-beside" }, front, parts.facts, words),
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
  parts.facts.replaceChildren(...factsOf(header.facts));
  const starts = { preload: walk.moves_in[0], stream: walk.enters[0], drain: walk.enters.at(-1) + walk.streams.at(-1) };
  parts.formulas.replaceChildren(...header.parts.map(([name, formula, numbers, cycles]) => {
    const jump = button(name, () => go(starts[name]), { title: "go to where it begins" });
    return element("tr", { "data-part": name }, element("td", {}, jump), element("td", {}, formula),
      element("td", {}, numbers), element("td", { class: "r" }, grouped(cycles)));
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
    `tile ${tile} (${tile + 1} of ${walk.count}): ${grouped(walk.streamed(tile, cycle))} of ${grouped(walk.streams[tile])} streamed`,
    `${grouped(busy)} of ${grouped(all)} elements multiply (${Math.round((100 * busy) / all)}%)`,
  ];
  parts.told.textContent = words.filter(Boolean).join(" · ");
  parts.grid.setAttribute("aria-label", `the array at ${parts.told.textContent}`);
  for (const row of parts.formulas.children) row.classList.toggle("now", doing.includes(row.dataset.part));
}
