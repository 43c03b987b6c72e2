// A journey that was recorded into the page. The lab's questions are answered as Python would answer them, with the
// answers that Python gave when the page was written (workbench/jupyter/widgets/recording.py). Answers are only looked
// up.

import { element } from "./common.js";
import { markupOf } from "./markup.js";
import { columnsOf } from "./timeline_data.js";

const BUFFERS_ALIGNED = 8;
const RECORD_VERSION = 1;

/** Unpacks a record from a text: base64 of a gzip of the length of its JSON, the JSON, and its buffers. */
export async function unpackedRecord(text) {
  if (!globalThis.DecompressionStream) throw new Error("This browser is too old for the lab: it cannot unpack what was recorded");
  let found;
  try {
    found = await unpacked(text);
  } catch {
    throw new Error("The record in this page is damaged or cut short: write the page again, or open another copy of it");
  }
  const [plain, buffers] = found;
  if (plain.version !== RECORD_VERSION) {
    throw new Error(`The record in this page has version ${plain.version}, and the page reads ${RECORD_VERSION}: write it again`);
  }
  return new Record(plain, buffers);
}

/** The JSON and the buffers. */
async function unpacked(text) {
  const packed = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = await new Response(stream).arrayBuffer();
  const length = new DataView(bytes).getUint32(0, true);
  const plain = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, length)));
  const begin = Math.ceil((4 + length) / BUFFERS_ALIGNED) * BUFFERS_ALIGNED;
  return [plain, plain.buffers.map(([offset, size]) => new DataView(bytes, begin + offset, size))];
}

/** The recorded answers, and ways to look them up. A selection is its number; `null` selects nothing. */
class Record {
  constructor(plain, buffers) {
    this.plain = plain;
    this.buffers = buffers;
    this.columns = columnsOf({ header: plain.selections.header, data: buffers[plain.selections.buffer] });
    this.looks = new Map(plain.looks.map(([ask, given, ...answer]) => [keyOf(ask, given), answer]));
  }

  /** The selection of a row of a list; null if the row cannot be selected. */
  ofRow(name, row) {
    const number = this.columns[`row_${name}`][row];
    return number ? number - 1 : null;
  }

  /** The rows of a list that a selection has. */
  rowsOf(name, selection) {
    const { set_first: first, set_steps: steps, [`marks_${name}`]: marks } = this.columns;
    const begin = first[marks[selection]];
    const rows = new Uint32Array(first[marks[selection] + 1] - begin);
    let row = 0;
    for (let place = 0; place < rows.length; place++) rows[place] = row += steps[begin + place];
    return rows;
  }

  about(selection) {
    const { what, counts, absorbed } = this.plain.selections;
    const { cycles, counts: count, absorbed: gone } = this.columns;
    return {
      what: what[selection],
      counts: counts[count[selection]],
      cycles: cycles[selection],
      absorbed: absorbed[gone[selection]],
    };
  }

  thread(selection) {
    const { what, parts } = this.plain.selections;
    const { thread_first: first, thread_parts: numbers } = this.columns;
    const rows = [...numbers.slice(first[selection], first[selection + 1])].map((part) => parts[part]);
    return `<p>${markupOf(element("b", {}, what[selection]))}</p><table class="thread">${rows.join("")}</table>`;
  }

  /** The selection of a typed text; a text that this page does not know is an error. */
  named(text) {
    const { names, unknown } = this.plain;
    const found = Object.hasOwn(names, text) ? names[text] : this.spanned(text) ?? this.placed(text);
    if (typeof found === "number") return found;
    throw new Error(found ?? `${text}: ${unknown}`);
  }

  /** `span 5`, or its number alone, is a row of the spans. */
  spanned(text) {
    const [, number] = /^(?:span )?([0-9,]*[0-9])$/.exec(text) ?? [];
    if (number === undefined) return undefined;
    const { count, left_out: leftOut } = this.plain.lists.spans;
    const row = Number(number.replaceAll(",", ""));
    if (row >= count) return `nothing in this journey is span ${row}: rows 0 to ${count - 1} of j.simulated.events`;
    return leftOut || this.ofRow("spans", row);
  }

  /** `kernel:12` is a line of MLIR on tiles, `kernel#3` an instruction. */
  placed(text) {
    const [, kernel, sign, number] = /^(.+)([:#])(\d+)$/.exec(text) ?? [];
    const [name, least] = sign === "#" ? ["instructions", 0] : ["scheduled", 1];
    const { outline, count } = this.plain.lists[name];
    const full = (title) => title === kernel || (/^k\d+$/.test(kernel ?? "") && title.startsWith(`${kernel}_`));
    const part = outline.findIndex(([, title]) => full(title));
    if (part < 0) return undefined;
    const [begin, end] = [outline[part][0] + 1, outline[part + 1]?.[0] ?? count];
    const row = begin + Number(number) - least;
    if (row >= begin && row < end) return this.ofRow(name, row) ?? undefined;
    return `${text}: ${kernel} has ${sign === "#" ? "instructions" : "lines"} ${least} to ${end - begin - 1 + least}`;
  }
}

/** Takes the place of a widget's model: questions are answered from a record. */
export class RecordedModel {
  constructor(record) {
    this.record = record;
    this.heard = new Set();
    this.past = [record.plain.selected];
    this.place = 0;
  }

  on(what, callback) {
    if (what === "msg:custom") this.heard.add(callback);
  }

  off(what, callback) {
    this.heard.delete(callback);
  }

  get() {
    return "";
  }

  send({ id, ask, given }) {
    try {
      const [answer, buffers = []] = this.answer(ask, given) ?? [{}];
      this.emit({ id, answer }, buffers);
    } catch (error) {
      this.emit({ id, error: error.message }, []);
    }
  }

  emit(message, buffers) {
    for (const each of this.heard) each(message, buffers);
  }

  answer(ask, given) {
    return Object.hasOwn(ANSWERS, ask) ? ANSWERS[ask](this, this.record, given) : this.ofLook(ask, given);
  }

  ofLook(ask, given) {
    const found = this.record.looks.get(keyOf(ask, given));
    if (!found) throw new Error(this.record.plain.missing);
    const [answer, buffers] = found;
    return [answer, buffers.map((number) => this.record.buffers[number])];
  }

  /** The reason why a question will have no answer, or an empty text: controls show it before they are pressed. */
  cannot(ask, given) {
    const known = Object.hasOwn(ANSWERS, ask) || this.record.looks.has(keyOf(ask, given));
    return known ? "" : this.record.plain.missing;
  }

  get selection() {
    return this.past[this.place];
  }

  select(selection) {
    if (selection === this.selection) return;
    this.past = [...this.past.slice(0, this.place + 1), selection];
    this.place = this.past.length - 1;
    this.tell();
  }

  step(by) {
    const place = Math.min(Math.max(this.place + by, 0), this.past.length - 1);
    if (place === this.place) return;
    this.place = place;
    this.tell();
  }

  tell() {
    const names = this.selection === null ? [] : Object.keys(this.record.plain.lists);
    const marks = names.map((name) => this.record.rowsOf(name, this.selection));
    this.emit({ tell: "selection", given: { selection: this.about(), lists: names } }, marks);
  }

  about() {
    const steps = { back: this.place, forward: this.past.length - 1 - this.place };
    if (this.selection === null) return { what: "", counts: [], cycles: 0, ...steps };
    return { ...this.record.about(this.selection), ...steps };
  }
}

/** The answer to each question: plain values, and buffers beside them. */
const ANSWERS = {
  open: (model, { plain }) => [plain.open],
  list: (model, record, { name }) => {
    const { rows, ...about } = record.plain.lists[name];
    const list = { ...about, first: rows.slice(0, record.plain.page) };
    const marks = model.selection === null ? [] : [record.rowsOf(name, model.selection)];
    return [{ list, stages: record.plain.open.stages, selection: model.about() }, marks];
  },
  rows: (model, { plain }, { name, first, count }) => [{ rows: plain.lists[name].rows.slice(first, first + count) }],
  pick: (model, record, { name, row }) => {
    const { left_out: leftOut } = record.plain.lists[name];
    if (leftOut) throw new Error(leftOut);
    const found = record.ofRow(name, row);
    if (found !== null) model.select(found);
  },
  choose: (model, record, { text }) => model.select(text.trim() ? record.named(text.trim()) : null),
  step: (model, record, { by }) => model.step(by),
  check: (model, { plain }, { stage }) => [{ stages: plain.open.stages, said: plain.checks[stage] }],
  thread: (model, record) => [{ html: model.selection === null ? "" : record.thread(model.selection) }],
  columns: (model, { plain, buffers }, { what }) => {
    const { header, buffer } = plain.blocks[what];
    return [{ header }, [buffers[buffer]]];
  },
  about: () => [{}], // the page keeps findings by idle time
  gap: (model, { plain }, { unit, cycle }) => {
    const holds = ([begin, end]) => begin <= cycle && cycle < end;
    const piece = plain.gaps.places[unit]?.find(holds) ?? plain.gaps.launches.find(holds);
    return [plain.gaps.answers[piece?.[2] ?? 0]];
  },
};

/** A question as one text, independent of the order of its arguments. */
function keyOf(ask, given) {
  return JSON.stringify([ask, Object.entries(given).sort(([one], [other]) => (one < other ? -1 : 1))]);
}
