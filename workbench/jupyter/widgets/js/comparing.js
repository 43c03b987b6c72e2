// Journeys side by side: what changed, a table to sort, and all timelines locked in time.
import { atEnd, element, grouped, wholeNumbers, widget } from "./common.js";
import { comparedTable, comparedTables } from "./compared_tables.js";
import { movedFinding } from "./findings.js";
import { askedBlock, askingCallbacks, createTimelines } from "./timeline_pair.js";

const NO_LINE = -1;

export default widget(async ({ model, root, link, signal }) => {
  const body = element("div", { class: "wb-compare" }, element("p", { class: "soft" }, "Opening the comparison…"));
  root.append(body);
  const opened = (await link.ask("open"))?.answer;
  if (!opened || signal.aborted) return;
  const keep = (row) => {
    model.set("row", row);
    model.save_changes();
  };
  const mark = (row) => {
    keep(row);
    show(row);
  };
  const table = comparedTable(opened, { choose: (row) => mark(row === model.get("row") ? NO_LINE : row) });
  const findings = element("div", { class: "cmp-findings" }, element("p", { class: "soft" }, "Looking for findings that came and went…"));
  const pictures = element("div", { class: "cmp-times tl-together" });
  body.replaceChildren(
    element("div", { class: "cmp-said" }, ...opened.sentences.map((each) => element("p", {}, each))),
    ...comparedTables(opened),
    element("div", { class: "cmp-title" }, "By the captured nodes: press a row to mark it in all timelines"),
    table.root, pictures, findings,
  );
  let timelines = [];
  let marked = null;

  async function show(row) {
    marked = row;
    table.mark(row);
    const found = row === NO_LINE ? null : await link.ask("spans", { row });
    if (marked !== row || signal.aborted) return;
    timelines.forEach((timeline, run) => timeline.select(found ? wholeNumbers(found.buffers[run]) : []));
  }

  async function pick(run, [span]) {
    if (span === undefined) {
      mark(NO_LINE);
      return;
    }
    const found = await link.ask("line", { run, span });
    if (!found) return;
    marked = found.answer.row; // the other timelines keep what they show: one span is looked at
    keep(marked);
    table.mark(marked);
  }

  const heard = () => model.get("row") !== marked && show(model.get("row"));
  model.on("change:row", heard);
  atEnd(signal, () => {
    model.off("change:row", heard);
    timelines.forEach((timeline) => timeline.destroy());
  });

  const blocks = await Promise.all(opened.names.map((_, run) => askedBlock(link, run, "timeline")));
  if (signal.aborted || !blocks.every(Boolean)) return;
  const titles = opened.names.map((name, run) => `${name}: ${grouped(blocks[run].header.makespan)} cycles`);
  const callbacks = opened.names.map((_, run) => ({ ...askingCallbacks(link, run), select: (rows) => pick(run, rows) }));
  timelines = createTimelines(pictures, blocks, titles, callbacks);
  if (model.get("row") !== NO_LINE) show(model.get("row"));
  const found = (await link.ask("findings"))?.answer;
  if (found && !signal.aborted) fillFindings(findings, found, opened.names);
});

function fillFindings(host, found, names) {
  const stakes = (each) =>
    each.cycles.map((cycles, run) => `${names[run]}: ${cycles === null ? "not found" : `${grouped(cycles)} cycles`}`).join(", ");
  host.replaceChildren(
    element("div", { class: "cmp-title" }, "Findings that came and went ",
      element("span", { class: "soft" }, found.note ?? `${found.stay} stay`)),
    ...found.moved.map((each) => movedFinding(each, stakes(each))),
  );
}
