// A cycle as tables, for who reads and does not look: the slots, and the tensors.

import { element, grouped } from "./common.js";

/** Fills `host` with the tables of the cycle that `data` stands at. */
export function fillMemoryTable(host, data, { picks, pick }) {
  const { now, header } = data;
  const slots = header.slots.map((slot, number) => {
    const life = now.life[number];
    const named = (rows) => rows.map((row) => data.named(row)).join(", ");
    const state = life < 0 ? "empty" : now.cycle < data.life_read[life] ? "not read yet" : "in use";
    const tensor = life < 0 ? "" : header.tensors[data.life_tensor[life]];
    return [nameOf(number), slot.core, state, tensor, named(now.written[number]), named(now.read[number]), slot.size];
  });
  const tensors = header.grids.map((grid, number) => {
    const { visited, tiles, moved, moves } = data.soFar(number, now);
    return [grid.tensor, grid.access, `${visited} of ${tiles}`, `${grouped(moved)} of ${grouped(moves)}`, grid.moved];
  });
  host.replaceChildren(
    memoryTable("slots of the scratchpad", ["slot", "core", "state", "tensor", "written by", "read by", "size"], slots),
    memoryTable("tensors", ["tensor", "access", "tiles moved so far", "moves so far", "in all"], tensors),
  );

  function nameOf(slot) {
    if (!picks) return data.slotName(slot);
    const made = element("button", { type: "button" }, data.slotName(slot));
    made.addEventListener("click", () => pick(slot));
    return made;
  }
}

function memoryTable(label, heads, rows) {
  const body = rows.map((row) => element("tr", {}, ...row.map((cell) => element("td", {}, cell))));
  const head = element("tr", {}, ...heads.map((each) => element("th", { scope: "col" }, each)));
  const made = element("table", { class: "t", "aria-label": label }, element("thead", {}, head), element("tbody", {}, ...body));
  return element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": label }, made);
}
