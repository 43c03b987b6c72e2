// What a setting costs against the start, the findings that came and went, the call that makes it, and all settings.
import { element, grouped } from "./common.js";

const COPIED_MILLISECONDS = 1500;
const CALL_TOLD = "the call that makes this journey; j: the journey at the start";

/** The figures of the current step. */
export function knobFigures(host, { signal }) {
  const [cycles, bytes, findings] = ["cycles", "DRAM bytes", "findings"].map((what) => {
    const number = element("b", {}, "…");
    const told = element("span", { class: "soft" });
    host.append(element("div", { class: "kn-figure" }, element("span", { class: "soft" }, what), number, told));
    return { number, told };
  });
  const working = element("div", { class: "kn-busy", role: "status", hidden: true }, element("progress", {}), element("span", {}));
  const code = element("code", { tabindex: "0", title: CALL_TOLD, "aria-label": CALL_TOLD });
  const copy = element("button", { type: "button", title: "copy the call" }, "copy");
  copy.addEventListener("click", () => knobCopy(code, copy), { signal });
  host.append(working, element("div", { class: "kn-call" }, code, copy));
  return {
    show(step) {
      cycles.number.textContent = grouped(step.cycles);
      bytes.number.textContent = grouped(step.bytes);
      cycles.told.textContent = step.than_start.cycles;
      bytes.told.textContent = step.than_start.bytes;
      code.textContent = step.values.length || step.scripts.length ? step.call : `${step.call}  # nothing is turned`;
    },
    findings(found) {
      const count = (change) => found.moved.filter((each) => each.change === change).length;
      findings.number.textContent = found.note ? "…" : `${count("came")} came, ${count("went")} went`;
      findings.told.textContent = found.note ?? `${found.stay} stay`;
    },
    noFindings(told) {
      findings.number.textContent = "…";
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

/** Findings that came and went, with their reasons. */
export function knobFindings(host) {
  return (found) => {
    host.replaceChildren(
      ...found.moved.map((each) =>
        element("p", { class: `kn-${each.change}` }, element("b", {}, each.change), ` · ${each.rule} · ${each.what}: `,
          element("span", { class: "soft" }, each.reason)),
      ),
    );
    host.hidden = !found.moved.length;
  };
}

/** Every step, newest first: a press goes back to one that was not refused. */
export function knobHistory(host, { back, signal }) {
  const list = element("ol", { class: "kn-history", "aria-label": "settings that were tried, the newest first" });
  host.append(element("div", { class: "kn-title" }, "History"), list);
  list.addEventListener(
    "click",
    (event) => {
      const pressed = event.target.closest("button");
      if (pressed) back(Number(pressed.dataset.step));
    },
    { signal },
  );
  return (steps, now) => {
    list.replaceChildren(
      ...[...steps].reverse().map((step) => {
        const what = element("span", { class: "kn-what" }, step.what);
        const more = step.refused ? "refused" : step.number ? knobDifference(step.more_cycles) : "";
        const cells = [element("span", { class: "soft" }, String(step.number)), what,
          element("span", { class: "r" }, step.refused ? "" : grouped(step.cycles)),
          element("span", { class: `r kn-more ${step.more_cycles > 0 ? "worse" : step.more_cycles < 0 ? "better" : ""}` }, more)];
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

function knobDifference(amount) {
  return amount > 0 ? `+${grouped(amount)}` : grouped(amount);
}
