// A cycle as tables, for users of a screen reader: the slots, and the tensors.

import { button, grouped, tableOf } from "./common.js";

/** Fills `host` with the tables of the cycle to which `data` was set. */
export function fillMemoryTable(host, data, { picks, pick }) {
  const { now, header } = data;
  const named = (rows) => rows.map((row) => data.named(row)).join(", ");
  const slots = header.slots.map((slot, number) => {
    const life = now.life[number];
    const state = life < 0 ? "empty" : now.cycle < data.life_read[life] ? "not read yet" : "in use";
    const tensor = life < 0 ? "" : header.tensors[data.life_tensor[life]];
    const name = picks ? button(data.slotName(number), () => pick(number)) : data.slotName(number);
    return [name, slot.core, state, tensor, named(now.written[number]), named(now.read[number]), slot.size];
  });
  const tensors = header.grids.map((grid, number) => {
    const { visited, tiles, moved, moves } = data.soFar(number, now);
    return [grid.tensor, grid.access, `${visited} of ${tiles}`, `${grouped(moved)} of ${grouped(moves)}`, grid.moved];
  });
  host.replaceChildren(
    tableOf("slots of the scratchpad", ["slot", "core", "state", "tensor", "written by", "read by", "size"], slots),
    tableOf("tensors", ["tensor", "access", "tiles moved so far", "moves so far", "in all"], tensors),
  );
}
