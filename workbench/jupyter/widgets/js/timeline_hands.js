// Pointer, wheel and touch on a timeline: this file finds their meaning, and draws nothing.

const STILL = 4; // pixels that a press may move and still be a click
const WHEEL_PIXELS = 400; // of a wheel, to show e times as much time

/** Listens to pointer, wheel and touch. `place(event)` gives moments and heights, with which functions of `acts` are
 *  called. */
export function useHands(target, place, acts, signal) {
  const pressed = new Map();
  let drag = null;
  const on = (kind, listen, options = {}) => target.addEventListener(kind, listen, { signal, ...options });
  on("pointerdown", (event) => {
    if (event.button > 1) return;
    target.setPointerCapture(event.pointerId);
    acts.leave();
    pressed.set(event.pointerId, event);
    const area = event.shiftKey || acts.isMeasuring();
    drag = { from: place(event), x: event.clientX, y: event.clientY, moved: false, area };
    if (pressed.size === 2) drag = { pinch: distance([...pressed.values()]) };
  });
  on("pointermove", (event) => {
    if (!pressed.has(event.pointerId)) {
      acts.hover(place(event));
      return;
    }
    const before = pressed.get(event.pointerId);
    pressed.set(event.pointerId, event);
    if (drag?.pinch && pressed.size === 2) {
      const now = distance([...pressed.values()]);
      acts.zoom(drag.pinch / now, place(event));
      drag.pinch = now;
      return;
    }
    if (!drag || drag.pinch) return;
    drag.moved ||= Math.hypot(event.clientX - drag.x, event.clientY - drag.y) > STILL;
    if (!drag.moved) return;
    if (drag.area) acts.area(drag.from, place(event), { free: event.altKey, done: false });
    else acts.pan(before.clientX - event.clientX);
  });
  const release = (event) => {
    if (!pressed.delete(event.pointerId) || !drag || drag.pinch) return;
    if (event.type === "pointerup") {
      if (!drag.moved) acts.click(place(event));
      else if (drag.area) acts.area(drag.from, place(event), { free: event.altKey, done: true });
    }
    drag = null;
  };
  on("pointerup", release);
  on("pointercancel", release);
  on("pointerleave", (event) => !pressed.size && acts.leave());
  on("dblclick", (event) => acts.open(place(event)));
  on(
    "wheel",
    (event) => {
      const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
      const zooms = event.ctrlKey || event.metaKey || (acts.hasFocus() && !event.shiftKey && !event.deltaX);
      if (!zooms && !sideways) return; // the page scrolls
      event.preventDefault();
      if (zooms) acts.zoom(Math.exp((event.deltaY * (event.ctrlKey ? 3 : 1)) / WHEEL_PIXELS), place(event));
      else acts.pan(sideways);
    },
    { passive: false },
  );
}

function distance([one, other]) {
  return Math.max(Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY), 1);
}

/** Listens to drags on a strip, of which only the moment counts. */
export function useStrip(target, moment, act, signal) {
  let from = null;
  const on = (kind, listen) => target.addEventListener(kind, listen, { signal });
  on("pointerdown", (event) => {
    target.setPointerCapture(event.pointerId);
    from = moment(event);
    act(from, from, event, false);
  });
  on("pointermove", (event) => from !== null && act(from, moment(event), event, false));
  on("pointerup", (event) => {
    if (from !== null) act(from, moment(event), event, true);
    from = null;
  });
  on("pointercancel", () => (from = null));
}
