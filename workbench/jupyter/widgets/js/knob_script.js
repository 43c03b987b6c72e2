// A kernel's transform script as text: lines with their numbers, and what is wrong at its own line.
import { element } from "./common.js";

const TYPING_MILLISECONDS = 700; // who pauses for so long wants to see what it does

/** `read()` resolves to `{ text, why }`, `write(text)` tries one, `own()` takes it away. */
export function knobScript(host, { read, write, own, signal }) {
  const numbers = element("pre", { class: "kn-numbers", "aria-hidden": "true" });
  const text = element("textarea", { class: "mono", spellcheck: "false", wrap: "off", "aria-label": "transform script", rows: "12" });
  const problems = element("div", { class: "kn-problems", role: "status" });
  const run = element("button", { type: "button", title: "Ctrl+Enter" }, "Try it");
  const back = element("button", { type: "button", disabled: true }, "Use the knobs again");
  const note = element("span", { class: "soft" });
  const body = element("div", { class: "kn-script" }, numbers, text);
  const root = element("details", { class: "kn-part" }, element("summary", {}, "Transform script"),
    element("div", { class: "kn-tools" }, run, back, note), body, problems);
  host.append(root);
  let kept = "";
  let timer = 0;
  let wrong = new Map();

  function paint() {
    const count = text.value.split("\n").length;
    numbers.replaceChildren(
      ...Array.from({ length: count }, (_, line) => {
        const said = wrong.get(line + 1);
        return element("span", { class: said ? "bad" : "", title: said ?? "" }, `${line + 1}\n`);
      }),
    );
    text.rows = Math.min(Math.max(count, 4), 24);
  }

  async function refresh() {
    if (!root.open) return;
    const found = await read();
    if (!found || signal.aborted) return;
    kept = text.value = found.text;
    note.textContent = found.why;
    text.disabled = run.disabled = Boolean(found.why);
    paint();
  }

  function attempt() {
    clearTimeout(timer);
    if (text.value === kept) return;
    kept = text.value;
    write(text.value);
  }

  function goTo(line) {
    const before = text.value.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    text.focus();
    text.setSelectionRange(before, before + (text.value.split("\n")[line - 1]?.length ?? 0));
  }

  text.addEventListener("input", () => {
    wrong = new Map();
    paint();
    clearTimeout(timer);
    timer = setTimeout(attempt, TYPING_MILLISECONDS);
  }, { signal });
  text.addEventListener("scroll", () => (numbers.scrollTop = text.scrollTop), { signal });
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) attempt();
  }, { signal });
  run.addEventListener("click", attempt, { signal });
  back.addEventListener("click", own, { signal });
  root.addEventListener("toggle", refresh, { signal });
  signal.addEventListener("abort", () => clearTimeout(timer), { once: true });

  return {
    refresh,
    /** What came of a step: whether a script of the user's is in force, and what is wrong with the one tried. */
    show({ inForce, refused, problems: found }) {
      back.disabled = !inForce;
      wrong = new Map(found.filter(({ line }) => line).map(({ line, message }) => [line, message]));
      paint();
      const lines = found.map(({ line, message }) => {
        const said = element("button", { type: "button", class: "kn-why" }, `${line ? `line ${line}: ` : ""}${message}`);
        if (line) said.addEventListener("click", () => goTo(line), { signal });
        return said;
      });
      problems.replaceChildren(...(lines.length || !refused ? lines : [element("span", { class: "kn-why" }, refused)]));
    },
  };
}
