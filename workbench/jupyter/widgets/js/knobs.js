// Knobs to turn: each change is scheduled and simulated in the background, and the new timeline stands above the old.
import { atEnd, button, element, grouped } from "./common.js";
import { movedFinding } from "./findings.js";
import { knobControl } from "./knob_controls.js";
import { knobMap } from "./knob_map.js";
import { knobScript } from "./knob_script.js";
import { knobFigures, knobHistory } from "./knob_steps.js";
import { askedBlock, askingCallbacks, createTimelines } from "./timeline_pair.js";

const AT_START = 0; // the number of the timeline at the start
const AT_NOW = 1;
const KNOB_PROGRESS_MILLISECONDS = 300;
const KNOBS_OF_SCRIPTS = ["tile", "order", "cores"];
const KNOBS_OF_ALL = [["fusion", "Fusion rules"], ["layout", "Layout in DRAM"], ["machine", "Figures of the machine"]];

/** The schedule editor in `host`. */
export function createKnobs(host, { link, signal }) {
  const editor = new KnobEditor(host, link, signal);
  editor.open();
  return { selected: () => editor.select("") };
}

class KnobEditor {
  constructor(host, link, signal) {
    Object.assign(this, { host, link, signal, steps: [], early: [], now: 0, kernel: "", unanswered: 0, controls: new Map() });
    this.root = element("div", { class: "wb-knobs" });
    this.kernels = element("select", { "aria-label": "kernel", onchange: () => this.select(this.kernels.value) });
    this.own = element("div", { class: "kn-own" });
    this.shared = element("div", {});
    this.note = element("p", { class: "kn-why", role: "alert", hidden: true });
    const unscript = button("Drop it", () => this.script.leave(), { title: "the knobs count again" });
    this.scripted = element("p", { class: "kn-rests", role: "status", hidden: true },
      "A script of yours sets tile, order and cores of this kernel.", unscript);
    const reset = button("Back to the start", () => this.back(AT_START));
    const left = element("div", { class: "kn-left" },
      element("div", { class: "kn-tools" }, this.kernels, reset), this.note, this.scripted, this.own, this.shared);
    const figures = element("div", { class: "kn-figures" });
    const history = element("div", { class: "kn-past" });
    const right = element("div", { class: "kn-right" }, figures, history);
    this.findings = element("div", { class: "kn-findings", hidden: true, tabindex: "0", role: "group",
      "aria-label": "findings that came and went" });
    const pictures = element("div", { class: "kn-pictures" });
    this.root.append(element("div", { class: "kn-top" }, left, right), this.findings, pictures);
    host.append(this.root);
    this.figures = knobFigures(figures);
    this.tellHistory = knobHistory(history, { back: (step) => this.back(step) });
    this.pictures = knobPictures(pictures, link, signal);
    this.script = knobScript(this.root, {
      read: async () => (await link.ask("script", { kernel: this.kernel }))?.answer,
      write: (text) => this.ask("write", { kernel: this.kernel, text }),
      own: () => this.ask("own", { kernel: this.kernel }),
      signal,
    });
    this.map = knobMap(this.root, {
      ask: async (what, given = {}) =>
        (await link.ask(what, what === "map" ? { kernel: this.kernel, ...given } : given))?.answer,
      knobs: () => [...this.knobs.filter((knob) => !this.rests(knob)), ...this.opened.shared],
      take: (row, column) => this.ask("take", { row, column }),
      signal,
    });
    link.on("step", (step) => this.take(step));
    link.atGone(() => this.restAll());
  }

  async open() {
    const found = await this.link.ask("open");
    if (this.signal.aborted) return;
    if (!found) {
      this.root.replaceChildren(element("p", { class: "soft" }, "Knobs are turned by Python, which does not answer here."));
      return;
    }
    this.opened = found.answer;
    const { kernels, shared, steps, now, kernel, knobs } = found.answer;
    this.kernels.append(...kernels.map((each) => element("option", {}, each)));
    this.kernels.hidden = !kernels.length;
    for (const [kind, title] of KNOBS_OF_ALL) {
      const knobs = shared.filter((knob) => knob.kind === kind);
      if (knobs.length) this.addShared(title, knobs);
    }
    Object.assign(this, { steps, now });
    this.fill(kernel, knobs);
    this.early.forEach((step) => this.keep(step));
    this.showStep();
  }

  /** Shows the knobs of the named kernel, else of the selected kernel; if none is selected, nothing changes. */
  async select(kernel) {
    if (!this.opened) return;
    const found = await this.link.ask("kernel", { kernel });
    if (!found || this.signal.aborted || ["", this.kernel].includes(found.answer.kernel)) return;
    this.fill(found.answer.kernel, found.answer.knobs);
    this.settle();
  }

  fill(kernel, knobs) {
    Object.assign(this, { kernel, knobs });
    this.kernels.value = kernel;
    for (const name of [...this.controls.keys()]) if (!name.startsWith(" ")) this.controls.delete(name);
    this.own.replaceChildren();
    this.shown?.abort(); // the listeners of the former knobs are removed
    this.shown = new AbortController();
    const signal = AbortSignal.any([this.signal, this.shown.signal]);
    for (const knob of knobs) this.add(this.own, knob, signal);
    this.map.offer();
    this.script.refresh({ another: true });
    this.offer();
  }

  /** Sets the ranges and marks of the kernel's knobs to those for the setting in force. */
  async offer() {
    const { kernel } = this;
    const mine = (this.offering = (this.offering ?? 0) + 1);
    const found = kernel && (await this.link.ask("present", { kernel }));
    if (!found || this.signal.aborted || mine !== this.offering) return;
    for (const each of found.answer.knobs) this.controls.get(knobKey({ kernel, name: each.name }))?.control.offer(each);
  }

  add(host, knob, signal) {
    const control = knobControl(host, knob, {
      turn: (text) => this.turn(knob, text),
      allowed: async () => (await this.link.ask("allowed", { kernel: knob.kernel, knob: knob.name }))?.answer.values,
      signal,
    });
    this.controls.set(knobKey(knob), { knob, control });
  }

  /** Adds knobs of the whole journey, which are drawn when they are first opened. */
  addShared(title, knobs) {
    const list = element("div", { class: "kn-list" });
    const search = () => {
      for (const row of list.children) row.hidden = !row.dataset.words.includes(field.value.trim().toLowerCase());
    };
    const toggle = () => {
      if (!part.open || list.firstChild) return;
      for (const knob of knobs) this.add(list, knob, this.signal);
      search(); // the user may have typed before the list was drawn
      this.settle();
    };
    const field = element("input", { type: "search", placeholder: "find…", "aria-label": `find among ${title}`,
      oninput: search });
    const part = element("details", { class: "kn-part", ontoggle: toggle },
      element("summary", {}, `${title} `, element("span", { class: "soft" }, String(knobs.length))), field, list);
    this.shared.append(part);
  }

  async turn(knob, text) {
    const found = await this.ask("turn", { kernel: knob.kernel, knob: knob.name, text });
    if (found?.refused) {
      this.controls.get(knobKey(knob))?.control.refuse(found.refused, this.inForce(knob));
      this.idle();
    }
  }

  back(step) {
    this.script.forget();
    this.ask("back", { step });
  }

  /** Asks for another setting. The shown result stays until the new one is there. */
  async ask(what, given) {
    this.unanswered++;
    this.figures.busy("working…");
    const found = await this.link.ask(what, given);
    this.unanswered--;
    if (found) this.watch();
    else {
      this.idle();
      this.settle(); // the chosen value is not in force
    }
    return found?.answer;
  }

  /** Shows the progress of the setting until it is done. */
  watch() {
    if (this.timer) return;
    this.timer = setTimeout(async () => {
      const found = await this.link.ask("progress");
      this.timer = 0;
      if (!found || this.signal.aborted) this.idle();
      else if (!found.answer.busy && !this.unanswered) this.idle();
      else {
        this.figures.busy(found.answer.line || "working…");
        this.watch();
      }
    }, KNOB_PROGRESS_MILLISECONDS);
  }

  /** Disables the controls that nobody answers any more; the pictures stay. */
  restAll() {
    for (const part of this.root.children) {
      if (part.contains(this.pictures.host)) continue;
      for (const each of part.querySelectorAll("button, input, select, textarea")) {
        each.disabled = true;
        each.title = "the kernel is gone";
      }
    }
  }

  idle() {
    clearTimeout(this.timer);
    this.timer = 0;
    this.figures.busy(null);
  }

  take(step) {
    if (!this.opened) {
      this.early.push(step); // a running session may send a step before it answers
      return;
    }
    if (!this.keep(step)) return;
    if (this.unanswered === 0) this.idle();
    this.showStep();
  }

  /** Keeps a step, unless it is one of the steps at the beginning. */
  keep(step) {
    if (this.steps.some(({ number }) => number === step.number)) return false;
    this.steps.push(step);
    this.now = step.now;
    return true;
  }

  get current() {
    return this.steps.find(({ number }) => number === this.now);
  }

  /** True if a script sets what the knob would set. */
  rests({ kernel, kind }) {
    return KNOBS_OF_SCRIPTS.includes(kind) && this.current.scripts.includes(kernel);
  }

  inForce(knob) {
    return this.current.values.find((each) => knobKey(each) === knobKey(knob))?.text ?? knob.start;
  }

  async showStep() {
    const last = this.steps.at(-1);
    this.tellHistory(this.steps, this.now);
    this.settle();
    if (last.refused) return;
    this.offer();
    this.figures.show(last);
    this.figures.findings("");
    const drawn = await this.pictures.show(last.number, this.steps[AT_START], last);
    if (!drawn || this.signal.aborted) return;
    this.findFindings(last.number); // slow work comes after the picture
    this.map.follow();
    this.script.refresh();
  }

  /** Sets the knobs to the values in force, except those that somebody is turning. */
  settle() {
    if (this.unanswered) return;
    const last = this.steps.at(-1);
    const inForce = this.current.scripts.includes(this.kernel);
    if (this.scripted.hidden === inForce) {
      this.scripted.hidden = !inForce;
      this.map.offer();
    }
    const guilty = last.refused ? last.turned.map(knobKey) : [];
    for (const [key, { knob, control }] of this.controls) {
      if (guilty.includes(key)) control.refuse(last.refused, this.inForce(knob));
      else control.show(this.inForce(knob));
      control.enable(!this.rests(knob));
    }
    const elsewhere = last.refused && !guilty.some((key) => this.controls.has(key)) && !last.written.includes(this.kernel);
    this.note.hidden = !elsewhere;
    this.note.textContent = elsewhere ? `${last.what}: ${last.refused}` : "";
    const written = last.written.includes(this.kernel);
    this.script.show({ inForce, written, refused: written ? last.refused : "", problems: written ? last.problems : [] });
    if (this.link.gone()) this.restAll(); // the answer that was awaited will not come
  }

  async findFindings(number) {
    if (number === AT_START) {
      this.figures.findings("turn a knob, and see what comes and goes");
      this.tellFindings([]);
      return;
    }
    this.figures.findings("looking…");
    const found = (await this.link.ask("findings", { step: number }))?.answer;
    if (!found?.moved || this.now !== number || this.signal.aborted) return;
    this.figures.findings(found.note ?? `${found.stay} stay`, found.note ? null : found);
    this.tellFindings(found.moved);
  }

  tellFindings(moved) {
    this.findings.replaceChildren(...moved.map((each) => movedFinding(each)));
    this.findings.hidden = !moved.length;
  }
}

/** The key of a knob. Keys of the journey's knobs begin with a space: no kernel has such a name. */
function knobKey({ kernel, name }) {
  return `${kernel} ${name}`;
}

/** The current timeline above the one at the start; the former picture stays until the new one is drawn. */
function knobPictures(host, link, signal) {
  const blocks = new Map();
  let shown = null;
  let newest = -1;
  const end = (picture) => {
    picture?.timelines.forEach((timeline) => timeline.destroy());
    picture?.part.remove();
  };
  atEnd(signal, () => {
    end(shown);
    blocks.clear();
  });

  return {
    host,
    /** Draws the timelines; resolves to true if they are drawn and no newer step is under way. */
    async show(number, start, now) {
      newest = number;
      const runs = number === start.number ? [AT_START] : [AT_NOW, AT_START];
      for (const run of runs) {
        if (run === AT_START && blocks.has(AT_START)) continue;
        const block = await askedBlock(link, run, "timeline");
        if (!block || newest !== number || signal.aborted) return false;
        blocks.set(run, block);
      }
      const before = shown;
      const told = (step) => `${step.number ? "now" : "start"}: ${grouped(step.cycles)} cycles`;
      const titles = runs.map((run) => told(run === AT_START ? start : now));
      const part = element("div", { class: "kn-times tl-together" });
      host.append(part);
      const callbacks = runs.map((run) => askingCallbacks(link, run));
      shown = { part, timelines: createTimelines(part, runs.map((run) => blocks.get(run)), titles, callbacks) };
      keepView(before, shown);
      end(before); // in one step: the next frame has the new picture
      await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      host.dataset.step = number;
      return newest === number;
    },
  };

  /** Restores the stretch of time, unless it was the whole run, and the unit. */
  function keepView(before, { timelines }) {
    const old = before?.timelines[0].timeline;
    if (!old) return;
    const [first] = timelines;
    if (old.clock.unit !== first.timeline.clock.unit) timelines.forEach((each) => each.setUnit(old.clock.unit));
    const { begin, end: until } = old.window;
    if (begin > 0 || until < old.whole) first.showAll(begin, until);
  }
}
