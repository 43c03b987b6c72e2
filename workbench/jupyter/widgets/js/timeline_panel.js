// The parts around the lanes: tools, legend, facts about the selection, and a table of the spans in view.

import { button, element, factsOf, fillChoices, grouped, tableOf } from "./common.js";
import { areaSums, bytesIn, counted, gapLine, inWords, percent, rateIn, spanFacts } from "./timeline_words.js";

const HINT =
  "Click a span to read what it waited for, or the space between spans to read why it is idle. Drag to pan; Shift and " +
  "drag, or drag along the axis, to measure; Ctrl and wheel to zoom.";
const KEYS = [
  ["← →", "the span before or after"],
  ["↑ ↓", "the lane above or below"],
  ["A D", "pan"],
  ["W S, + −", "zoom"],
  ["0", "the whole run"],
  ["F", "zoom to what is selected"],
  ["B", "go to what it waited for"],
  ["G", "the idle time before the span"],
  ["C", "critical path"],
  ["/", "search"],
  ["N P", "next, previous found"],
  ["Esc", "let go"],
];
const IN_TABLE = 60;
const MOST_WAITS = 12; // the most waits of a span that are listed, the tightest ones

/** Makes the tools above the lanes, which call functions of `acts`. */
export function makeTools(data, acts) {
  const search = element("input", {
    type: "search",
    "aria-label": "search spans by kernel, node, kind or unit",
    title: "softmax  kind:load  unit:dma0",
    placeholder: "search: kind:load",
    spellcheck: "false",
    oninput: () => acts.search(search.value),
    onkeydown: (event) => event.key === "Enter" && acts.step(event.shiftKey ? -1 : 1),
  });
  const found = element("output", { class: "tl-found soft" });
  const toggle = (text, label, act) => button(text, act, { label, "aria-pressed": "false" });
  const critical = toggle("critical path", "show the critical path alone (C)", acts.critical);
  const measure = toggle("measure", "measure an area by dragging, instead of panning", acts.measure);
  const units = element("select", { "aria-label": "unit of time", onchange: () => acts.unit(units.value) });
  fillChoices(units, [["cycles", "cycles"], ["ns", "nanoseconds"]], "cycles");
  const zoom = [
    button("−", () => acts.zoom(2), { label: "zoom out (S)" }),
    button("+", () => acts.zoom(0.5), { label: "zoom in (W)" }),
    button("all", acts.whole, { label: "all: show the whole run (0)" }),
  ];
  const bar = element("div", { class: "tl-tools", role: "toolbar", "aria-label": "timeline" });
  bar.append(search, found, critical, measure, element("span", { class: "tl-fill" }), units, ...zoom);
  return { bar, search, found, critical, measure, units };
}

/** Makes the legend: kinds of work, which filter when pressed, and causes of idle time. */
export function makeLegend(data, palette, acts) {
  const { header } = data;
  const legend = element("div", { class: "tl-legend" });
  for (const { name, fill } of palette.kinds.slice(0, header.kinds.length)) {
    const word = name.toLowerCase();
    const only = button("", () => acts.filter(`kind:${word}`), { label: `only ${word}: search kind:${word}` });
    only.append(swatch(fill), word);
    legend.append(only);
  }
  const causes = header.idle_causes.map((number) => [inWords(header.causes[number]), palette.causes[number]]);
  if (header.launches.some(([begin], number) => begin > (number ? header.launches[number - 1][1] : 0))) {
    causes.unshift(["launch", palette.launch]);
  }
  if (causes.length) legend.append(element("span", { class: "soft" }, "idle, strip below:"));
  for (const [name, colour] of causes) {
    const mark = element("i", { style: `background:${colour}` });
    legend.append(element("span", { class: "tl-cause" }, mark, name));
  }
  if (header.unused.length) {
    const all = `idle throughout: ${header.unused.join(", ")}`;
    const few = `idle throughout: ${counted(header.unused.length, "unit")}`;
    legend.append(element("span", { class: "soft", title: all }, all.length < 60 ? all : few));
  }
  return legend;
}

/** A small canvas with a kind's colour and texture. */
function swatch(fill) {
  const made = element("canvas", { width: "14", height: "11", "aria-hidden": "true" });
  const context = made.getContext("2d");
  context.fillStyle = fill;
  context.fillRect(0, 0, 14, 11);
  return made;
}

function title(text, ...more) {
  return element("div", { class: "tl-title" }, element("b", {}, text), ...more);
}

function facts(pairs) {
  return element("dl", {}, ...factsOf(pairs));
}

/** Shows, if nothing is picked, what a user can do; for a run without spans, that it has none. */
export function tellNothing(told, data) {
  told.replaceChildren(element("p", { class: "soft" }, data.lanes.length ? HINT : data.header.nothing));
}

/** Makes the list of keys, which opens on a press. */
export function makeKeys() {
  return element("details", { class: "tl-keys" }, element("summary", {}, "Keys"), facts(KEYS));
}

/** Shows a span: its facts, the spans for which it waits, and those that wait for it. */
export function tellSpan(told, data, span, { clock, slack, waits, reasons, goTo }) {
  const { kinds } = data.header;
  const name = title(`span ${data.row[span]}: ${kinds[data.kind[span]]} on ${data.lanes[data.laneOf(span)].name}`);
  const pairs = spanFacts(data, span, clock, slack);
  const one = ({ span: other, room }) => {
    const text = `${data.row[other]} ${kinds[data.kind[other]]} on ${data.lanes[data.laneOf(other)].name}`;
    const spare = element("span", { class: room ? "soft" : "tl-tight" }, room ? `+${clock.length(room)}` : "no slack");
    const link = button(text, () => goTo(other), { label: `go to span ${text}` });
    return element("span", { class: "tl-wait" }, link, spare);
  };
  const list = (some) => {
    const more = some.length > MOST_WAITS ? [element("span", { class: "soft" }, `and ${some.length - MOST_WAITS} with more slack`)] : [];
    return [...some.slice(0, MOST_WAITS).map(one), ...more];
  };
  if (waits?.into.length) pairs.push(["waits for", list(waits.into)]);
  if (waits?.out.length) pairs.push(["waited for by", list(waits.out)]);
  told.replaceChildren(name, facts(pairs), cardsOf(reasons, clock));
}

/** The findings of the rules, in their own words. */
function cardsOf(findings, clock) {
  const cards = findings.map((each) =>
    element(
      "div",
      { class: "finding" },
      element("div", {}, element("b", {}, each.rule), element("span", { class: "stake" }, `${clock.length(each.cycles)} at stake`)),
      element("p", {}, `${each.kernel ? `${each.kernel}: ` : ""}${each.reason}`),
    ),
  );
  return element("div", { class: "findings" }, ...cards);
}

export function tellGap(told, data, gap, { clock, goTo }) {
  const line = element("p", {}, `${gap.reason[0].toUpperCase()}${gap.reason.slice(1)}.`);
  const links = [];
  for (const [what, span] of [["the span that waited", gap.next], ["what it waited for", gap.blocker]]) {
    if (span >= 0) links.push(button(what, () => goTo(span), { label: `go to span ${data.row[span]}, ${what}` }));
  }
  const { findings, note } = gap;
  const nothing = note ?? (findings?.length === 0 ? "No finding speaks of these spans or of their kernel." : "");
  const known = nothing ? [element("p", { class: "soft" }, nothing)] : [];
  told.replaceChildren(
    title(gapLine(data, gap, clock)),
    line,
    element("div", { class: "tl-links" }, ...links),
    ...known,
    cardsOf(findings ?? [], clock),
  );
}

export function tellArea(told, data, area, clock) {
  const rows = data.area(area.begin, area.end, area.lanes);
  const sums = areaSums(rows);
  const heads = ["unit", "spans", "busy", "of the area", "bytes", "rate"];
  const cells = rows.map((row) => [
    data.lanes[row.lane].name,
    grouped(row.spans),
    clock.length(row.busy),
    percent(row.share),
    row.bytes ? bytesIn(row.bytes) : "",
    row.bytes ? rateIn(row.rate, clock) : "",
  ]);
  const line = `${counted(sums.spans, "span")}, units busy ${percent(sums.share)} on the average`;
  const moved = sums.bytes ? `, ${bytesIn(sums.bytes)} moved, ${rateIn(sums.rate, clock)}` : "";
  told.replaceChildren(
    title(`${clock.stretch(area.begin, area.end)}`),
    element("p", {}, `${counted(rows.length, "unit")}: ${line}${moved}.`),
    tableOf("units in the area", heads, cells, { right: [1, 2, 3, 4, 5], box: "scroll tall" }),
  );
}

/** Fills a table with the spans in view, by unit, for users of a screen reader. */
export function fillTable(host, data, window, clock) {
  const rows = [];
  let count = 0;
  for (const { number, name } of data.lanes) {
    const [first, until] = data.spansWithin(number, window.begin, window.end);
    count += until - first;
    for (let span = first; span < until && rows.length < IN_TABLE; span++) {
      rows.push([
        String(data.row[span]),
        name,
        data.header.kinds[data.kind[span]],
        data.header.kernels[data.launch[span]],
        clock.number(data.start[span]),
        clock.number(data.end[span]),
        clock.number(data.end[span] - data.start[span]),
        inWords(data.header.causes[data.cause[span]]),
      ]);
    }
  }
  const { unit } = clock;
  const heads = ["span", "unit", "kind", "kernel", `start, ${unit}`, `end, ${unit}`, unit, "waited for last"];
  const left = count - rows.length;
  const more = left > 0 ? `${counted(left, "more span")} in view: zoom in, or see j.simulated.events. ` : "";
  const table = tableOf("spans in view", heads, rows, { right: [0, 4, 5, 6], box: "scroll tall" });
  host.replaceChildren(table, element("p", { class: "soft" }, more));
}
