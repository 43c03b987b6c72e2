// The timeline as a widget of its own: one run, or two above each other.

import { atEnd, element, widget } from "./common.js";
import { askedBlock, askingCallbacks, createTimelines } from "./timeline_pair.js";

const SELECTED = ["spans", "spans_beside"];

export default widget(async ({ model, root, link, signal }) => {
  const opening = element("p", { class: "soft tl-opening" }, "Opening the timeline…");
  root.append(opening);
  const opened = await link.ask("open");
  const blocks = opened && (await Promise.all(opened.answer.titles.map((_, run) => askedBlock(link, run, "timeline"))));
  if (signal.aborted || !blocks?.every(Boolean)) return;
  opening.remove();
  const callbacks = blocks.map((_, run) => ({
    ...askingCallbacks(link, run),
    select: (rows) => {
      model.set(SELECTED[run], rows);
      model.save_changes();
    },
  }));
  const timelines = createTimelines(root, blocks, opened.answer.titles, callbacks);
  const follow = timelines.map((timeline, run) => {
    const selected = () => timeline.select(model.get(SELECTED[run]));
    model.on(`change:${SELECTED[run]}`, selected);
    if (model.get(SELECTED[run]).length) selected();
    return selected;
  });
  link.on("show", ({ begin, end }) => timelines[0].showAll(begin, end));
  atEnd(signal, () => {
    follow.forEach((selected, run) => model.off(`change:${SELECTED[run]}`, selected));
    timelines.forEach((timeline) => timeline.destroy());
  });
});
