// A list of any length: only the rows in sight are in the page, and they come from Python page by page.
import { clamped, element, firstWhere, onKeys, oncePerFrame, uniqueId, watchSize } from "./common.js";
import { placeMarkup } from "./markup.js";

const ROW = 20; // pixels
const PAGE = 50; // rows
const KEPT_PAGES = 40;
const MARGIN = 6; // rows above and below what is in sight
const MOST_TICKS = 400;

/** Makes a list in `root`. `about` has count, columns, uncut, widest, outline and the first page of rows;
 *  `fetchRows(first, count)` resolves to rows, or to null; `pick(row)` is called with the row that the user chooses. */
export function makeList({ root, name, label, about, fetchRows, pick, signal }) {
  const pages = new Map([[0, about.first]]);
  const asked = new Set();
  const drawn = new Map();
  let marked = new Uint32Array(0);
  let active = 0;
  let width = 0;
  let height = 0;
  let top = 0; // the scroll position in this frame
  let seenTop = 0;
  let sideways = false;
  let laidOut = false;
  let rulerOf = marked; // the rows that the ruler shows
  let toSight = false; // true if the list must scroll to the first marked row
  const heads = element("div", { class: "heads", "aria-hidden": "true" });
  const rows = element("div", { class: "rows", role: "presentation", onclick: press });
  const box = element("div", { class: `list of-${name}`, role: "listbox", id: uniqueId("wb-list"), tabindex: "0",
    "aria-label": label, "aria-multiselectable": "true" }, rows);
  const ruler = element("div", { class: "ruler", "aria-hidden": "true" });
  const title = element("div", { class: "sticky mono", "aria-hidden": "true" });
  root.append(heads, element("div", { class: "scroller" }, title, box, ruler));
  heads.append(...about.columns.map((each) => element("span", {}, each)));
  heads.classList.add(`of-${name}`);
  for (const [column, letters] of Object.entries(about.uncut)) root.style.setProperty(`--${column}-letters`, letters);
  rows.style.height = `${about.count * ROW}px`;
  if (about.widest) rows.style.minWidth = `calc(${about.widest}ch + 64px)`;
  if (!about.count) box.append(element("p", { class: "soft nothing" }, "nothing here"));

  const look = () => {
    laidOut = box.clientHeight > 0;
    top = box.scrollTop;
    sideways = box.scrollLeft > 0;
  };
  const draw = oncePerFrame(() => {
    if (rulerOf !== marked) drawRuler();
    if (!height || !laidOut) return; // a hidden list is drawn when it is visible again
    if (toSight) bringToSight();
    const first = Math.max(0, Math.floor(top / ROW) - MARGIN);
    const last = Math.min(about.count, Math.ceil((top + height) / ROW) + MARGIN);
    for (const [number, row] of drawn) {
      if (number >= first && number < last) continue;
      row.remove();
      drawn.delete(number);
    }
    for (let page = Math.floor(first / PAGE); page * PAGE < last; page++) want(page);
    for (let number = first; number < last; number++) {
      const content = pages.get(Math.floor(number / PAGE))?.[number % PAGE];
      if (content && !drawn.has(number)) drawn.set(number, rows.appendChild(made(number, content)));
    }
    for (const [number, row] of drawn) paint(number, row);
    nameSticky(Math.floor(top / ROW));
    const moved = top !== seenTop;
    seenTop = top;
    if (moved) draw(); // a list that is put back on the page gets its size later, without an event
  }, signal, look);

  function want(page) {
    const known = pages.get(page);
    if (known) {
      pages.delete(page); // the most recently used page is last
      pages.set(page, known);
      return;
    }
    if (asked.has(page)) return;
    asked.add(page);
    fetchRows(page * PAGE, PAGE).then((found) => {
      asked.delete(page);
      if (!found || signal.aborted) return;
      pages.set(page, found);
      while (pages.size > KEPT_PAGES) pages.delete(pages.keys().next().value);
      draw();
    });
  }

  function made(number, [cells, head, depth, selectable]) {
    const row = element("div", {
      class: `row of-${name}${head ? " head" : ""}${selectable ? "" : " plain"}`,
      role: "option",
      id: `${box.id}-${number}`,
      "aria-posinset": number + 1,
      "aria-setsize": about.count,
      style: `top:${number * ROW}px;--d:${depth}`,
    });
    for (const cell of cells) {
      const span = element("span");
      placeMarkup(span, cell);
      span.title = span.textContent;
      row.append(span);
    }
    row.dataset.row = number;
    return row;
  }

  function paint(number, row) {
    const chosen = marked[markedFrom(number)] === number;
    row.classList.toggle("s", chosen);
    row.classList.toggle("at", number === active);
    row.setAttribute("aria-selected", String(chosen));
  }

  /** The place, among the marked rows, of the first one that is not before `row`. */
  function markedFrom(row) {
    return firstWhere(0, marked.length, (place) => marked[place] >= row);
  }

  function nameSticky(top) {
    const at = about.outline.findLastIndex(([start]) => start <= top);
    placeMarkup(title, at < 0 ? "" : about.outline[at][1]);
    title.hidden = at < 0 || about.outline[at][0] === top;
  }

  function press(event) {
    const row = event.target.closest(".row");
    if (!row || getSelection().toString()) return; // a text is being selected to copy
    activate(Number(row.dataset.row));
    draw();
    pick(Number(row.dataset.row));
  }

  /** Draws ticks beside the list: the places of the selected rows in the whole list. */
  function drawRuler() {
    rulerOf = marked;
    const places = new Set();
    for (const row of marked) places.add(Math.floor((row / about.count) * MOST_TICKS));
    ruler.replaceChildren(
      ...[...places].map((place) => element("i", { style: `top:${(100 * place) / MOST_TICKS}%` })),
    );
  }

  /** The scroll position, near `before`, at which a row is in sight. */
  function placeFor(row, before) {
    const at = row * ROW;
    const seen = at >= before + ROW && at <= before + height - 2 * ROW;
    return seen ? before : Math.max(0, at - height / 2 + ROW);
  }

  function scrollTo(row) {
    const to = placeFor(row, box.scrollTop);
    if (to !== box.scrollTop) box.scrollTop = to;
    activate(row);
    draw();
  }

  /** Scrolls to the first marked row, unless a marked row is in sight, and to the begin of the lines. */
  function bringToSight() {
    toSight = false;
    if (sideways && document.activeElement !== box) box.scrollLeft = 0;
    const under = top > 0 ? 1 : 0; // the title of the part covers the first row
    const first = markedFrom(Math.ceil(top / ROW) + under);
    const inSight = first < marked.length && (marked[first] + 1) * ROW <= top + height;
    if (!marked.length || inSight) return;
    const to = placeFor(marked[0], top);
    if (to !== top) {
      box.scrollTop = to;
      top = Math.min(to, Math.max(0, about.count * ROW - height));
    }
    activate(marked[0]);
  }

  function activate(row) {
    active = clamped(row, 0, about.count - 1);
    box.setAttribute("aria-activedescendant", `${box.id}-${active}`);
  }

  function move(by) {
    scrollTo(clamped(active + by, 0, about.count - 1));
  }

  box.addEventListener("scroll", draw, { signal, passive: true });
  onKeys(
    box,
    {
      ArrowDown: () => move(1),
      ArrowUp: () => move(-1),
      PageDown: () => move(Math.floor(height / ROW)),
      PageUp: () => move(-Math.floor(height / ROW)),
      Home: () => move(-about.count),
      End: () => move(about.count),
      Enter: () => pick(active),
      " ": () => pick(active),
    },
    signal,
  );
  watchSize(
    box,
    (wide, now) => {
      const back = wide === width && now === height; // it was hidden, where it lost its scroll position
      if (back && box.scrollTop !== seenTop) box.scrollTop = seenTop;
      [width, height] = [wide, now];
      draw();
    },
    signal,
  );

  return {
    /** Marks these rows, and scrolls to the first unless one of them is in sight. */
    mark(numbers) {
      marked = numbers;
      toSight = true;
      draw();
    },
    /** Goes to the next marked row, or to the one before. */
    next(by) {
      if (!marked.length) return;
      const place = markedFrom(by > 0 ? active + 1 : active) - (by > 0 ? 0 : 1);
      scrollTo(marked[(place + marked.length) % marked.length]);
    },
    get rows() {
      return marked;
    },
    scrollTo,
    focus: () => box.focus({ preventScroll: true }),
  };
}
