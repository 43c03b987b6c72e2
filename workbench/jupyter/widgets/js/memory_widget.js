// Scratchpad and tiles as a widget of its own.

import { atEnd, element, wholeNumbers, widget } from "./common.js";
import { lookLink } from "./looks.js";
import { createMemory } from "./memory.js";

const REST_MILLISECONDS = 200; // milliseconds without a move, after which Python is told the cycle

export default widget(({ model, root, link, signal }) => {
  let selected = new Uint32Array(0);
  let told = -1;
  const host = element("div", { class: "mem-alone" });
  root.append(host);
  let resting = 0;
  const moveCursor = (cycle, done) => {
    clearTimeout(resting);
    if (done && cycle !== model.get("cycle")) resting = setTimeout(() => tell(cycle), REST_MILLISECONDS);
  };
  const tell = (cycle) => {
    told = cycle;
    model.set("cycle", cycle);
    model.save_changes();
  };
  const look = createMemory(host, { link: lookLink(link, "memory"), signal, moveCursor, spans: () => selected, begin: () => model.get("cycle") });
  const take = (buffers) => {
    selected = wholeNumbers(buffers[0]);
    look.selected();
  };
  const moved = () => {
    clearTimeout(resting);
    if (model.get("cycle") !== told) look.cursor(model.get("cycle"));
  };
  link.on("selected", (_, buffers) => take(buffers));
  link.ask("selected").then((found) => found && !signal.aborted && take(found.buffers));
  model.on("change:cycle", moved);
  atEnd(signal, () => {
    clearTimeout(resting);
    model.off("change:cycle", moved);
  });
});
