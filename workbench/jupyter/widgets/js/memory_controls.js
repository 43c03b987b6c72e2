// The controls of scratchpad and tiles: the launch, play and pause, steps, a slider, the speed.

import { button, element, fillChoices, grouped } from "./common.js";

const PLAY_SPEEDS = [
  [0, "change by change"],
  [60, "in 60 seconds"],
  [20, "in 20 seconds"],
  [8, "in 8 seconds"],
];
const FIRST_PLAY_SPEED = 20;

/** Makes the controls. `acts`: `play()`, `step(by)`, `scrub(cycle, done)`, `launch(number)`, `near(on)`. */
export function makeMemoryControls(acts) {
  const scrub = (done) => () => acts.scrub(Number(slider.value), done);
  const press = (event) => {
    const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (event.key === " ") acts.play();
    else if (by && event.shiftKey) acts.scrub(Number(slider.value) + by, true);
    else if (by && !event.altKey) acts.step(by);
    if ((by && !event.altKey) || event.key === " ") event.preventDefault();
  };
  const launches = element("select", { "aria-label": "kernel", class: "mem-kernel",
    onchange: () => acts.launch(Number(launches.value)) });
  const play = button("▶", () => acts.play(), { label: "play" });
  const slider = element("input", { type: "range", class: "mem-slider", "aria-label": "cycle", step: "1", min: "0",
    max: "0", title: "arrow keys: the next change; with Shift one cycle; space plays",
    oninput: scrub(false), onchange: scrub(true), onkeydown: press });
  const field = element("input", { type: "number", class: "mem-cycle", "aria-label": "go to a cycle", min: "0",
    step: "1", onchange: () => field.value !== "" && acts.scrub(Number(field.value), true) });
  const whole = element("span", { class: "soft mem-whole" });
  const speed = element("select", { "aria-label": "how fast it plays", title: "how fast it plays" });
  fillChoices(speed, PLAY_SPEEDS, FIRST_PLAY_SPEED);
  const toggle = () => {
    const now = near.getAttribute("aria-pressed") !== "true";
    near.setAttribute("aria-pressed", String(now));
    acts.near(now);
  };
  const nearest = "near the cursor: only the time around it";
  const near = button("near the cursor", toggle, { label: nearest, "aria-pressed": "false" });
  const root = element(
    "div",
    { class: "mem-tools", role: "group", "aria-label": "clock" },
    launches,
    element("span", { class: "mem-steps" },
      button("◂", () => acts.step(-1), { label: "the change before" }), play,
      button("▸", () => acts.step(1), { label: "the next change" })),
    slider,
    element("span", { class: "mem-at" }, element("label", {}, "cycle ", field), whole),
    speed,
    near,
  );
  return {
    root,
    get seconds() {
      return Number(speed.value);
    },
    open(run) {
      fillChoices(launches, run.kernels.map((name, launch) => [launch, name]), 0);
      field.max = run.cycles;
      whole.textContent = ` of ${grouped(run.cycles)}`;
    },
    /** Sets the slider to the length of a launch. */
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
