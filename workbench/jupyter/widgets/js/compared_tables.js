// The tables of a comparison: what changed, the journeys and their stages, and the one that can be sorted.
import { button, element, grouped, signed, tableOf, toneOf } from "./common.js";

const ASCENDING = "ascending";
const DESCENDING = "descending";
const FEW_CHANGES = 12; // machines of other kinds differ in every figure: beyond so many rows the table opens on a press

/** The changes, and the stages side by side. */
export function comparedTables({ changes, journeys, stages, names }) {
  const made = ({ columns, rows }, label, right = true) =>
    tableOf(label, columns, rows.map((row) => row.map((cell) => cellOf(cell, right))));
  const part = (title, table, { open, right }) => element("details", { class: "cmp-part", open },
    element("summary", {}, `${title} `, element("span", { class: "soft" }, String(table.rows.length))), made(table, title, right));
  const few = changes.rows.length <= FEW_CHANGES;
  return [
    made(journeys, `cycles and time of ${names.join(", ")}`),
    element("div", { class: "cmp-pair" },
      part("What they were made with, where it differs", changes, { open: few, right: false }),
      part("Stages", stages, { open: true, right: true })),
  ];
}

function cellOf(cell, right) {
  if (cell === null) return element("td", { class: "soft" }, "–");
  if (typeof cell !== "number") return element("td", { class: "cmp-word" }, String(cell));
  return element("td", { class: right ? "r" : "" }, Number.isInteger(cell) ? grouped(cell) : cell.toPrecision(4));
}

/** The rows of `.nodes`, sorted by any column; a press on a row chooses it. */
export function comparedTable({ lines, names }, { choose }) {
  const [first, ...others] = names;
  const columns = [
    { title: "what", key: (line) => line.what },
    ...names.map((name, run) => ({ title: `cycles ${name}`, key: (line) => line.cycles[run], number: true })),
    ...others.flatMap((name, place) => [
      { title: `more than ${first}${others.length > 1 ? `, ${name}` : ""}`, key: (line) => line.cycles[place + 1] - line.cycles[0], number: true, signed: true },
      { title: `bytes more${others.length > 1 ? `, ${name}` : ""}`, key: (line) => line.bytes[place + 1] - line.bytes[0], number: true, signed: true },
    ]),
    { title: "change", key: (line) => line.change },
  ];
  let sorted = null;
  let way = DESCENDING;
  let chosen = -1;
  const heads = columns.map((column) => {
    const press = button(column.title, () => sort(column));
    return element("th", { scope: "col", class: column.number ? "r" : "" }, press);
  });
  const rows = lines.map((line, place) => {
    const name = element("button", { type: "button", "aria-pressed": "false", disabled: !line.marks,
      title: line.kernels.map((each, run) => `${names[run]}: ${each || "not here"}`).join("\n") }, line.what);
    const cells = columns.slice(1).map((column) => {
      const value = column.key(line);
      if (!column.number) return element("td", {}, value);
      return column.signed
        ? element("td", { class: `r ${toneOf(value) || "soft"}` }, signed(value))
        : element("td", { class: "r" }, grouped(value));
    });
    const press = () => line.marks && choose(place);
    return element("tr", { "data-row": place, onclick: press }, element("td", {}, name), ...cells);
  });
  const body = element("tbody", {}, ...rows);

  function sort(column) {
    const again = sorted === column;
    way = again && way === DESCENDING ? ASCENDING : DESCENDING;
    if (!again && !column.number) way = ASCENDING;
    sorted = column;
    const sign = way === ASCENDING ? 1 : -1;
    const order = lines.map((line, place) => ({ value: column.key(line), place }));
    order.sort((one, other) => sign * comparedOrder(one.value, other.value) || one.place - other.place);
    body.append(...order.map(({ place }) => rows[place]));
    heads.forEach((head, place) =>
      columns[place] === column ? head.setAttribute("aria-sort", way) : head.removeAttribute("aria-sort"));
  }

  return {
    root: element("div", { class: "scroll cmp-lines", tabindex: "0" },
      element("table", { class: "t", "aria-label": "cycles and bytes by captured nodes" },
        element("thead", {}, element("tr", {}, ...heads)), body)),
    mark(place) {
      if (place === chosen) return;
      for (const [each, is] of [[chosen, false], [place, true]]) {
        rows[each]?.classList.toggle("s", is);
        rows[each]?.querySelector("button").setAttribute("aria-pressed", String(is));
      }
      chosen = place;
      rows[place]?.scrollIntoView({ block: "nearest" });
    },
  };
}

function comparedOrder(one, other) {
  return typeof one === "number" ? one - other : one.localeCompare(other);
}
