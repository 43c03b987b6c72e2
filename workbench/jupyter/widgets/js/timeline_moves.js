// Ways from span to span: by arrow keys, along the waits, and through the results of a search.

import { coreOf, rowOfLane } from "./timeline_layout.js";
import { counted } from "./timeline_words.js";

const ROOM_AROUND = 0.35; // of a span's length, on both sides, when the view zooms to the span

/** Picks the span before or after on its lane; the first in view if none is selected. */
export function stepSpan(timeline, by) {
  const { data, seen, window } = timeline;
  if (seen.span < 0) {
    const lane = data.lanes.find(({ number }) => data.held[number].pieceAt(window.begin) < data.held[number].last);
    if (lane) timeline.pick(data.held[lane.number].pieceAt(window.begin), "keyboard");
    return;
  }
  const lane = data.held[data.laneOf(seen.span)];
  const next = seen.span + by;
  if (next >= lane.first && next < lane.last) timeline.pick(next, "keyboard");
}

/** Picks the span of the lane above or below that is nearest in time. */
export function stepLane(timeline, by) {
  const { data, seen } = timeline;
  if (seen.span < 0) {
    stepSpan(timeline, 1);
    return;
  }
  const lane = data.held[data.laneOf(seen.span) + by];
  if (!lane) return;
  const moment = (data.start[seen.span] + data.end[seen.span]) / 2;
  timeline.pick(Math.min(lane.pieceAt(moment), lane.last - 1), "keyboard");
}

export function goToBlocker(timeline) {
  const { data, seen } = timeline;
  if (seen.span < 0) return;
  const blocker = data.blockerOf(seen.span, data.header.causes[data.cause[seen.span]]);
  if (blocker >= 0) timeline.pick(blocker, "keyboard");
}

/** The idle time right before the selected span, or within it. */
export function gapBefore(timeline) {
  const { data, seen } = timeline;
  if (seen.span < 0) return;
  const cycle = data.work[seen.span] > data.start[seen.span] ? data.start[seen.span] : data.start[seen.span] - 1;
  timeline.pickGap(cycle < 0 ? null : data.gap(data.laneOf(seen.span), cycle), cycle);
}

/** Zooms to the selected span, area or idle time. */
export function showSelected(timeline) {
  const { data, seen } = timeline;
  const { span, area, gap } = seen;
  const [begin, end] = span >= 0 ? [data.start[span], data.end[span]] : [(area ?? gap)?.begin, (area ?? gap)?.end];
  if (begin === undefined) return;
  const room = (end - begin) * ROOM_AROUND;
  timeline.setWindow({ begin: begin - room, end: end + room });
}

/** Unfolds the span's core, and pans to the span if it is out of sight. */
export function bringIntoView(timeline, span) {
  const { data, window } = timeline;
  const lane = data.laneOf(span);
  if (timeline.folded.delete(coreOf(data.lanes[lane].name))) timeline.arrange();
  const [begin, end] = [data.start[span], data.end[span]];
  if (end < window.begin || begin > window.end) timeline.centre((begin + end) / 2);
  const row = timeline.width && rowOfLane(timeline.rows, lane);
  const body = timeline.plot.parentElement;
  if (row && (row.top < body.scrollTop || row.top + row.height > body.scrollTop + body.clientHeight)) {
    body.scrollTop = row.top - body.clientHeight / 2;
  }
}

/** Marks the spans that a search finds, and shows their number. */
export function search(timeline, text) {
  const { data, filters, tools } = timeline;
  const found = text.trim() ? data.search(text) : null;
  filters.search = found?.marks ?? null;
  timeline.refilter();
  tools.found.textContent = found ? (found.error ?? counted(found.count, "span")) : "";
}

/** Picks the next span that the search found; after the last comes the first. */
export function stepFound(timeline, by) {
  const { data, filters, seen } = timeline;
  const marks = filters.search;
  if (!marks) return;
  const count = marks.length;
  let span = seen.span < 0 ? (by > 0 ? -1 : count) : seen.span;
  for (let tries = 0; tries < count; tries++) {
    span = (span + by + count) % count;
    if (marks[span]) {
      timeline.pick(span, "search");
      return;
    }
  }
}

/** Shows the critical path alone, or all again. */
export async function toggleCritical(timeline) {
  const { data, filters, tools } = timeline;
  if (filters.critical) filters.critical = null;
  else {
    timeline.path ??= await timeline.ask("critical");
    if (!timeline.path) return;
    filters.critical = data.marksOf(timeline.path.critical);
  }
  tools.critical.setAttribute("aria-pressed", String(Boolean(filters.critical)));
  timeline.refilter();
}

/** Zooms to the launch that runs at a moment. */
export function openLaunch(timeline, moment) {
  const found = timeline.data.header.launches.find(([begin, end]) => begin <= moment && moment < end);
  if (found) timeline.setWindow({ begin: found[0], end: found[1] });
}
