// The clock of scratchpad and tiles: which launch, play and pause, steps, a slider, how fast.

import { element, grouped } from "./common.js";

const PLAY_SPEEDS = [
  ["change by change", 0],
  ["in 60 seconds", 60],
  ["in 20 seconds", 20],
  ["in 8 seconds", 8],
];
const FIRST_PLAY_SPEED = 20;

/** `acts`: `play()`, `step(by)`, `scrub(cycle, done)`, `launch(number)`, `near(on)`. */
export function makeMemoryControls(acts, signal) {
  const press = (text, label, act) => {
    const made = element("button", { type: "button", "aria-label": label, title: label }, text);
    made.addEventListener("click", act, { signal });
    return made;
  };
  const launches = element("select", { "aria-label": "kernel", class: "mem-kernel" });
  const back = press("◂", "the change before", () => acts.step(-1));
  const play = press("▶", "play", () => acts.play());
  const on = press("▸", "the next change", () => acts.step(1));
  const slider = element("input", { type: "range", class: "mem-slider", "aria-label": "cycle", step: "1", min: "0", max: "0" });
  const field = element("input", { type: "number", class: "mem-cycle", "aria-label": "go to a cycle", min: "0", step: "1" });
  const whole = element("span", { class: "soft mem-whole" });
  const speed = element("select", { "aria-label": "how fast it plays", title: "how fast it plays" });
  speed.append(...PLAY_SPEEDS.map(([text, seconds]) => element("option", { value: seconds, selected: seconds === FIRST_PLAY_SPEED }, text)));
  const near = press("near the cursor", "near the cursor: only the time around it", () => {
    const now = near.getAttribute("aria-pressed") !== "true";
    near.setAttribute("aria-pressed", String(now));
    acts.near(now);
  });
  near.setAttribute("aria-pressed", "false");
  const listen = (target, kind, act) => target.addEventListener(kind, act, { signal });
  listen(launches, "change", () => acts.launch(Number(launches.value)));
  listen(slider, "input", () => acts.scrub(Number(slider.value), false));
  listen(slider, "change", () => acts.scrub(Number(slider.value), true));
  listen(slider, "keydown", (event) => {
    const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (event.key === " ") acts.play();
    else if (by && event.shiftKey) acts.scrub(Number(slider.value) + by, true);
    else if (by && !event.altKey) acts.step(by);
    if ((by && !event.altKey) || event.key === " ") event.preventDefault();
  });
  listen(field, "change", () => field.value !== "" && acts.scrub(Number(field.value), true));
  const root = element(
    "div",
    { class: "mem-tools", role: "group", "aria-label": "clock" },
    launches,
    element("span", { class: "mem-steps" }, back, play, on),
    slider,
    element("span", { class: "mem-at" }, element("label", {}, "cycle ", field), whole),
    speed,
    near,
  );
  slider.title = "arrow keys: the next change; with Shift one cycle; space plays";
  return {
    root,
    get seconds() {
      return Number(speed.value);
    },
    pressPlay: () => acts.play(),
    open(run) {
      launches.append(...run.kernels.map((name, launch) => element("option", { value: launch }, name)));
      launches.hidden = run.kernels.length < 2;
      field.max = run.cycles;
      whole.textContent = ` of ${grouped(run.cycles)}`;
    },
    /** The slider goes through one launch. */
    show(launch, { header }) {
      launches.value = launch;
      slider.min = header.begin;
      slider.max = header.end;
    },
    at(cycle) {
      slider.value = cycle;
      slider.setAttribute("aria-valuetext", `cycle ${grouped(cycle)}`);
      if (!field.matches(":focus")) field.value = cycle;
    },
    playing(now) {
      play.textContent = now ? "❚❚" : "▶";
      play.title = now ? "pause" : "play";
      play.setAttribute("aria-label", play.title);
    },
  };
}
