// The views below the timeline: one is shown at a time, and each is made when it is first opened.
import { createArray } from "./array.js";
import { button, element } from "./common.js";
import { createFindings } from "./findings.js";
import { createKnobs } from "./knobs.js";
import { createMemory } from "./memory.js";
import { createPasses } from "./passes.js";
import { createPipeline } from "./pipeline.js";

/** A view is `{ name, title, make }`. `make(host, { link, signal, spans, marked, pick, choose, moveCursor })` may
 *  return `{ cursor(cycle), selected(), shown(), ready }`: the first three are called when the timeline's cursor moves,
 *  when the selection changes, and when the view is shown again; `ready` resolves when the view has its contents.
 *  `spans()` are the selected rows of the events, `begin()` is the cycle in which the first of them begins,
 *  `marked(list)` are the selected rows of a list of the lab, `pick(row, list)` selects a row of a list, `choose(text)`
 *  selects by a text as `j.select` does, and `moveCursor(cycle)` moves the timeline's cursor. */
export const LOOKS = [
  { name: "findings", title: "Findings", make: createFindings },
  { name: "memory", title: "Scratchpad and tiles", make: createMemory },
  { name: "array", title: "Array", make: createArray },
  { name: "pipeline", title: "Pipeline", make: createPipeline },
  { name: "passes", title: "Passes", make: createPasses },
  { name: "knobs", title: "Knobs", make: createKnobs },
];

/** The link of a view: its questions go to the view's own part of Python. */
export function lookLink(link, name) {
  const ofView = (ask) => (what, ...given) => ask(`${name}.${what}`, ...given);
  return { ...link, ask: ofView(link.ask), cannot: ofView(link.cannot), on: ofView(link.on) };
}

const LOOK_GONE = "The kernel is gone: run the cell again, then open this view.";

/** The same link until the view has its contents, that is, until an answer leads to no further question. A question
 *  before that which nobody can answer calls `lost`. */
function openingLink(link, lost) {
  let [waiting, opening] = [0, true];
  return {
    ...link,
    async ask(what, given, buffers) {
      waiting++;
      const found = await link.ask(what, given, buffers);
      waiting--;
      if (opening && found === null && link.gone()) lost();
      if (opening) setTimeout(() => (opening &&= waiting > 0)); // after the view's next question
      return found;
    },
  };
}

/** The views that Python has, as tabs; none is open at first. */
export function makeLooks(root, { link, signal, ...lab }) {
  const tabs = element("div", { class: "looks", role: "group", "aria-label": "views" });
  const place = element("div", { class: "look-of" });
  root.append(tabs, place);
  const open = new Map();
  let now = null;

  function show(look) {
    const again = now === look.name;
    now = again ? null : look.name;
    for (const each of tabs.children) each.setAttribute("aria-pressed", String(each.dataset.look === now));
    for (const [name, { host }] of open) host.hidden = name !== now;
    if (again) return;
    if (open.has(now)) {
      open.get(now).made?.shown?.();
      return;
    }
    const host = element("div", { class: `look of-${look.name}`, role: "group", "aria-label": look.title, tabindex: "-1" });
    place.append(host);
    open.set(look.name, makeLook(look, host));
  }

  /** Makes a view in its place, or a line with the reason why it is missing. */
  function makeLook(look, host) {
    const entry = { host, made: null };
    const lost = () => {
      if (signal.aborted) return;
      entry.made = null;
      host.replaceChildren(element("p", { class: "soft", role: "status" }, LOOK_GONE));
    };
    if (link.gone()) lost();
    else entry.made = look.make(host, { link: openingLink(lookLink(link, look.name), lost), signal, ...lab });
    return entry;
  }

  /** Shows a view and scrolls to it; scrolls again when the view has its contents, unless the user has scrolled
   *  meanwhile. */
  function openAt(name) {
    if (now !== name) show(LOOKS.find((look) => look.name === name));
    const { host, made } = open.get(name);
    const goThere = () => tabs.scrollIntoView({ block: "start" });
    host.focus({ preventScroll: true });
    goThere();
    made?.ready?.then(() => host.matches(":focus") && goThere());
  }

  return {
    open: openAt,
    has: (name) => open.has(name),
    fill(names) {
      const known = LOOKS.filter(({ name }) => names.includes(name));
      const tab = (look) => button(look.title, () => show(look), { "aria-pressed": "false", "data-look": look.name });
      tabs.append(...known.map(tab));
      tabs.hidden = !tabs.children.length;
    },
    cursor: (cycle) => open.get(now)?.made?.cursor?.(cycle),
    selected: () => open.get(now)?.made?.selected?.(),
  };
}
