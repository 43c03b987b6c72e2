// The map of mappings: cycles over two knobs, filled in the background; a press on a cell takes its setting.
import { button, clamped, element, legendOf, onKeys } from "./common.js";

const MAP_POLL_MILLISECONDS = 250;
const NO_SECOND_KNOB = "";
const GROUPS = { fusion: "Fusion rules", machine: "Figures of the machine" }; // all other knobs are of the kernel

/** The subject of a map, in words. */
function nameOf({ kernel, down, across }) {
  return `cycles by ${[down, across].filter(Boolean).join(" and ")}${kernel && ` of ${kernel}`}`;
}

/** The headings above and beside the cells, and the subject of the map. */
function headsOf(map) {
  return JSON.stringify([nameOf(map), map.rows, map.columns]);
}

/** The meaning of colours and frames; hidden until there is a map. */
function mapLegend() {
  const marks = [["shades", "fast to slow"], ["refused", "refused"], ["best", "best"], ["now", "the setting now"]];
  return legendOf(marks.map(([look, what]) => [{ class: look }, what]), { class: "legend kn-legend", hidden: true });
}

/** Draws the map in `host`. `ask(what, given)` resolves to Python's answer; `knobs()` returns the knobs that can be
 *  chosen. */
export function knobMap(host, { ask, knobs, take, signal }) {
  const down = element("select", { "aria-label": "the knob downwards" });
  const across = element("select", { "aria-label": "the knob across" });
  const stop = button("Stop", () => ask("stop"), { disabled: true });
  const bar = element("progress", { max: "1", value: "0", "aria-label": "settings that are known", hidden: true });
  const summary = element("p", { class: "kn-summary", role: "status" });
  const told = element("p", { class: "kn-told soft", role: "status", "aria-live": "polite" });
  const place = element("div", { class: "scroll", tabindex: "-1", onmouseover: say, onfocusin: say, onclick: press });
  const legend = mapLegend();
  const root = element("details", { class: "kn-part" }, element("summary", {}, "Map of mappings: cycles over two knobs"),
    element("div", { class: "kn-tools" },
      down, element("span", { class: "soft" }, "by"), across, button("Fill the map", begin), stop, bar),
    place, legend, told, summary);
  host.append(root);
  let at = [0, 0];
  let cells = [];
  let filling = 0; // the number of the current filling

  function offer() {
    const found = knobs().filter(({ values }) => values.length > 1);
    const kernel = found.find(({ kernel: of }) => of)?.kernel;
    const titles = [...(kernel ? [kernel] : []), ...Object.values(GROUPS)];
    const groups = () => titles.map((title) => element("optgroup", { label: title },
      ...found.filter(({ kind }) => (GROUPS[kind] ?? kernel) === title).map(({ name }) => element("option", {}, name))));
    down.replaceChildren(element("option", { value: NO_SECOND_KNOB }, "one knob only"), ...groups());
    across.replaceChildren(...groups());
    const tiles = found.filter(({ kind }) => kind === "tile");
    down.value = tiles[0]?.name ?? NO_SECOND_KNOB;
    across.value = (tiles[1] ?? found.find(({ name }) => name !== down.value))?.name ?? "";
    if (down.value === across.value) down.value = NO_SECOND_KNOB;
  }

  async function begin() {
    const mine = ++filling;
    stop.disabled = false;
    bar.hidden = false;
    bar.value = 0;
    const chosen = [down.value, across.value].filter(Boolean);
    let found = await ask("map", { knobs: chosen });
    while (found && mine === filling && !signal.aborted) {
      draw(found.map);
      if (found.map.done) break;
      await new Promise((done) => setTimeout(done, MAP_POLL_MILLISECONDS));
      if (mine !== filling || signal.aborted) return;
      found = await ask("map_now");
    }
    if (mine !== filling) return;
    stop.disabled = true;
    bar.hidden = true;
  }

  function draw(map) {
    bar.max = map.total;
    bar.value = map.known;
    const of = map.kernel && `${map.kernel}: `;
    summary.textContent = of + [map.summary, map.apart].filter(Boolean).join(". ");
    if (!place.firstChild || place.dataset.of !== headsOf(map)) build(map);
    map.cells.forEach((row, r) => row.forEach((cell, c) => paint(cells[r][c], cell, map, r, c)));
  }

  function build(map) {
    place.dataset.of = headsOf(map);
    const corner = element("th", { scope: "col", class: "soft" }, map.down ? `${map.down} ↓  ${map.across} →` : `${map.across} →`);
    const head = element("tr", {}, corner, ...map.columns.map((each) => element("th", { scope: "col" }, each)));
    cells = map.rows.map((_, r) =>
      map.columns.map((_, c) => element("td", { role: "gridcell", "data-row": r, "data-column": c, tabindex: "-1" })));
    const rows = map.rows.map((each, r) => element("tr", {}, element("th", { scope: "row" }, each), ...cells[r]));
    place.replaceChildren(element("table", { class: "kn-map", role: "grid", "aria-label": nameOf(map) },
      element("thead", {}, head), element("tbody", {}, ...rows)));
    legend.hidden = false;
    at = map.now ?? [0, 0];
    cells[at[0]][at[1]].tabIndex = 0;
    told.textContent = "Press a cell to take it; the arrow keys go from cell to cell.";
  }

  function paint(made, cell, map, r, c) {
    const is = (mark) => mark !== null && mark[0] === r && mark[1] === c;
    made.textContent = cell.text;
    made.className = `kn-cell ${cell.state}${is(map.best) ? " best" : ""}${is(map.now) ? " now" : ""}`;
    made.style.setProperty("--part", cell.colour === null ? "0%" : `${100 * cell.colour}%`);
    made.title = cell.told;
    made.setAttribute("aria-label", [cell.text, made.title].filter(Boolean).join(": ")); // begins with what is seen
    made.setAttribute("aria-disabled", String(cell.state === "refused"));
  }

  function focus(r, c) {
    cells[at[0]]?.[at[1]]?.setAttribute("tabindex", "-1");
    at = [clamped(r, 0, cells.length - 1), clamped(c, 0, cells[0].length - 1)];
    const cell = cells[at[0]][at[1]];
    cell.tabIndex = 0;
    cell.focus();
  }

  function choose(cell) {
    if (!cell || cell.classList.contains("refused")) return;
    take(Number(cell.dataset.row), Number(cell.dataset.column));
  }

  function cellOf(event) {
    return event.target.closest?.("td");
  }

  function say(event) {
    if (cellOf(event)) told.textContent = cellOf(event).title;
  }

  function press(event) {
    const cell = cellOf(event);
    if (!cell) return;
    focus(Number(cell.dataset.row), Number(cell.dataset.column));
    choose(cell);
  }

  const move = (down_, across_) => () => cells.length && focus(at[0] + down_, at[1] + across_);
  onKeys(place, {
    ArrowDown: move(1, 0), ArrowUp: move(-1, 0), ArrowRight: move(0, 1), ArrowLeft: move(0, -1),
    Enter: (event) => choose(cellOf(event)), " ": (event) => choose(cellOf(event)),
  }, signal);

  /** Marks the cell of the current setting. */
  async function follow() {
    if (!cells.length || !bar.hidden) return;
    const found = await ask("map_now");
    if (found && bar.hidden && !signal.aborted) draw(found.map);
  }

  return { offer, follow };
}
