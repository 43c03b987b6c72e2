// The cost of a setting compared with the start, the findings that came and went, the call that makes it, and all
// settings.
import { button, element, grouped, signed, toneOf } from "./common.js";

const COPIED_MILLISECONDS = 1500;
const CALL_TOLD = "the call that makes this journey; j: the journey at the start";

/** The figures of the current step. */
export function knobFigures(host) {
  const [cycles, bytes, findings] = ["cycles", "DRAM bytes", "findings"].map((what) => {
    const number = element("b", {}, "…");
    const told = element("span", { class: "soft" });
    host.append(element("div", { class: "kn-figure" }, element("span", { class: "soft" }, what), number, told));
    return { number, told };
  });
  const working = element("div", { class: "kn-busy", role: "status", hidden: true }, element("progress", {}), element("span", {}));
  const code = element("code", { tabindex: "0", title: CALL_TOLD, "aria-label": CALL_TOLD });
  const copy = button("copy", () => knobCopy(code, copy), { title: "copy the call" });
  host.append(working, element("div", { class: "kn-call" }, code, copy));
  return {
    show(step) {
      cycles.number.textContent = grouped(step.cycles);
      bytes.number.textContent = grouped(step.bytes);
      cycles.told.textContent = step.than_start.cycles;
      bytes.told.textContent = step.than_start.bytes;
      code.textContent = step.values.length || step.scripts.length ? step.call : `${step.call}  # nothing is turned`;
    },
    findings(told, found = null) {
      const count = (change) => found.moved.filter((each) => each.change === change).length;
      findings.number.textContent = found ? `${count("came")} came, ${count("went")} went` : "…";
      findings.told.textContent = told;
    },
    busy(line) {
      working.hidden = line === null;
      working.lastChild.textContent = line ?? "";
    },
  };
}

async function knobCopy(code, copy) {
  try {
    await navigator.clipboard.writeText(code.textContent);
    copy.textContent = "copied";
  } catch {
    getSelection().selectAllChildren(code); // a page without the clipboard's permission: one key is left to press
    copy.textContent = "press Ctrl+C";
  }
  setTimeout(() => (copy.textContent = "copy"), COPIED_MILLISECONDS);
}

/** Every step, newest first: a press returns to a step that was not refused. */
export function knobHistory(host, { back }) {
  const press = (event) => {
    const pressed = event.target.closest("button");
    if (pressed) back(Number(pressed.dataset.step));
  };
  const label = "settings that were tried, the newest first";
  const list = element("ol", { class: "kn-history", "aria-label": label, onclick: press });
  host.append(element("div", { class: "kn-title" }, "History"), list);
  return (steps, now) => {
    list.replaceChildren(
      ...[...steps].reverse().map((step) => {
        const what = element("span", { class: "kn-what" }, step.what);
        const more = step.refused ? "refused" : step.number ? signed(step.more_cycles) : "";
        const cells = [element("span", { class: "soft" }, String(step.number)), what,
          element("span", { class: "r" }, step.refused ? "" : grouped(step.cycles)),
          element("span", { class: `r kn-more ${toneOf(step.more_cycles)}` }, more)];
        if (step.refused) return element("li", { class: "kn-step", title: step.refused }, ...cells);
        const button = element("button", { type: "button", class: "kn-step", "data-step": step.number,
          "aria-label": `${step.number} ${step.what}, ${grouped(step.cycles)} cycles, ${more}: back to this step` }, ...cells);
        if (step.number === now) button.setAttribute("aria-current", "step");
        return element("li", {}, button);
      }),
    );
    const current = list.querySelector("[aria-current]")?.parentElement;
    if (current) {
      const above = current.offsetTop - list.offsetTop;
      if (above < list.scrollTop || above + current.offsetHeight > list.scrollTop + list.clientHeight) list.scrollTop = above;
    }
  };
}
