// One knob: a slider over the values worth trying, a field for any other value, and the reason if a value is refused.
import { button, element, oncePerFrame, uniqueId } from "./common.js";

const MOST_MARKS = 6; // more would lie on each other

/** Draws a knob as rows of `host`. `turn(text)` is called with the chosen or typed text; `allowed()` resolves to
 *  `[[value, reason of refusal], ...]`. `show(text)` sets the shown value without a call back. */
export function knobControl(host, knob, { turn, allowed, signal }) {
  const id = uniqueId("wb-knob");
  const said = element("div", { class: "kn-said", id, role: "status" });
  const make = { switch: knobSwitch, word: knobChoice, number: knobSlider, order: knobSlider }[knob.holds];
  let now = knob.start;
  let offered = knob;
  const choose = (text) => {
    if (text === now) return;
    now = text;
    parts.show(text);
    said.replaceChildren();
    turn(text);
  };
  const parts = make(knob, { "aria-label": knob.name, "aria-describedby": id }, oncePerFrame(choose, signal), signal);
  parts.show(knob.start);
  const tryAll = async () => {
    ask.disabled = true;
    said.replaceChildren(element("span", { class: "soft" }, "trying each value…"));
    const found = await allowed();
    ask.disabled = false;
    const left = found?.length === 0; // Python tries the values of one knob at a time
    const again = left ? [element("span", { class: "soft" }, "another knob was asked for meanwhile: press again")] : [];
    said.replaceChildren(...again, ...(found ?? []).map(([value, why]) =>
      element("span", { class: why ? "kn-why" : "kn-good" }, `${value} ${why ? `✗ ${why}` : "✓"}`)));
  };
  const ask = button("?", tryAll, { class: "kn-ask", "aria-label": `which values of ${knob.name} can be had`,
    title: "try every value worth trying, and say which can be had" });
  ask.hidden = knob.holds === "word" && knob.values.length < 2; // any text is possible: there is nothing to try
  const range = element("span", { class: "kn-range soft" }, knob.holds === "switch" ? "" : knob.range);
  const name = element("span", { class: "kn-name mono", title: knob.about }, knob.kernel ? knob.name : knob.item);
  const about = element("span", { class: "soft" }, (range.textContent && knob.about ? " · " : "") + knob.about);
  const row = element("div", { class: `kn-knob of-${knob.holds}`, role: "group", "aria-label": knob.name, "data-knob": knob.name, "data-words": `${knob.name} ${knob.about}`.toLowerCase() },
    name, ...parts.shown, element("span", { class: "kn-about" }, element("span", { class: "kn-limits" }, range, about), ask), said);
  row.style.setProperty("--letters", knob.holds === "order" ? knob.start.length : 0);
  host.append(row);
  return {
    /** Sets new values worth trying, after other knobs were turned. */
    offer(given) {
      const same = offered.range === given.range && String(offered.values) === String(given.values);
      if (same || !parts.offer) return;
      offered = given;
      range.textContent = given.range;
      parts.whenLeft(() => {
        parts.offer(offered.values);
        parts.show(now);
      });
    },
    show(text) {
      now = text;
      parts.show(text);
      row.classList.toggle("turned", text !== knob.start);
      row.classList.remove("refused");
      said.replaceChildren();
      parts.field?.removeAttribute("aria-invalid");
    },
    refuse(why, inForce) {
      row.classList.add("refused");
      parts.field?.setAttribute("aria-invalid", "true");
      said.replaceChildren(element("span", { class: "kn-why" }, `${now || "An empty field"} is refused: ${why}`),
        element("span", { class: "soft" }, ` ${inForce} stays.`));
    },
    enable(able) {
      for (const each of [...parts.inputs, ask]) each.disabled = !able;
    },
  };
}

/** On or off. The functions that make controls get the names for a field, and `choose(text)` for the chosen text. */
function knobSwitch(knob, names, choose) {
  const box = element("input", { type: "checkbox", ...names, onchange: () => choose(box.checked ? "on" : "off") });
  const show = (text) => (box.checked = text === "on");
  return { shown: [element("span", { class: "kn-wide" }, box)], inputs: [box], show };
}

/** A word: one of several, or any text if no values are known. */
function knobChoice(knob, names, choose) {
  const listened = { ...names, onchange: () => choose(field.value) };
  const field = knob.values.length > 1
    ? element("select", listened, ...knob.values.map((each) => element("option", {}, each)))
    : element("input", { type: "text", spellcheck: "false", ...listened });
  const show = (text) => (field.value = text);
  return { shown: [element("span", { class: "kn-wide" }, field)], inputs: [field], field, show };
}

/** A number or an order: a slider over the values worth trying, and a field. */
function knobSlider(knob, names, choose, signal) {
  let values = [];
  let held = false; // marks do not move under the pointer
  let later = null;
  const typed = () => choose(field.value.trim());
  const slider = element("input", { type: "range", min: "0", step: "1", ...names,
    "aria-label": `${knob.name}, values worth trying`,
    onpointerdown: () => (held = true), oninput: () => choose(values[Number(slider.value)]) });
  const field = element("input", { type: "text", spellcheck: "false", ...names, "aria-label": `${knob.name}, any value`,
    onchange: typed, onkeydown: (event) => event.key === "Enter" && typed() });
  const marks = element("div", { class: "kn-marks", "aria-hidden": "true" });
  const inputs = [slider, field];
  const release = () => {
    held = false;
    later?.();
    later = null;
  };
  for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) addEventListener(end, release, { signal });
  const offer = (given) => {
    values = given;
    const last = values.length - 1;
    slider.max = String(Math.max(last, 0));
    slider.disabled = last < 1;
    inputs.splice(0, inputs.length, ...(last < 1 ? [field] : [slider, field]));
    const shown = last <= MOST_MARKS ? values : [];
    marks.replaceChildren(...shown.map((each, place) => {
      const mark = element("span", {}, each);
      mark.style.setProperty("--at", last ? place / last : 0); // below the slider's handle
      mark.classList.toggle("start", each === knob.start);
      return mark;
    }));
  };
  offer(knob.values);
  const show = (text) => {
    const place = values.indexOf(text);
    if (place >= 0) slider.value = String(place);
    slider.classList.toggle("between", place < 0);
    slider.setAttribute("aria-valuetext", text);
    field.value = text;
  };
  const whenLeft = (act) => (held ? (later = act) : act());
  const shown = [element("span", { class: "kn-slide" }, slider, marks), field];
  return { shown, inputs, field, show, offer, whenLeft };
}
