// A kernel's transform script as text: lines with their numbers, and what is wrong at its own line.
import { atEnd, button, element } from "./common.js";

const TYPING_MILLISECONDS = 700; // who pauses for so long wants to see what it does

/** `read()` resolves to `{ text, why }`, `write(text)` tries one, `own()` takes it away. */
export function knobScript(host, { read, write, own, signal }) {
  const numbers = element("pre", { class: "kn-numbers", "aria-hidden": "true" });
  const text = element("textarea", { class: "mono", spellcheck: "false", wrap: "off", rows: "12",
    "aria-label": "transform script", oninput: tryLater, onscroll: () => (numbers.scrollTop = text.scrollTop),
    onkeydown: (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && attempt() });
  const problems = element("div", { class: "kn-problems", role: "status" });
  const run = button("Try it", () => attempt(), { title: "Ctrl+Enter" });
  const back = button("Use the knobs again", () => (back.dataset.restores ? restore() : leave()), { disabled: true });
  const note = element("span", { class: "soft" });
  const body = element("div", { class: "kn-script" }, numbers, text);
  const root = element("details", { class: "kn-part", ontoggle: () => refresh() },
    element("summary", {}, "Transform script"), element("div", { class: "kn-tools" }, run, back, note), body, problems);
  host.append(root);
  let kept = "";
  let timer = 0;
  let wrong = new Map();
  let reading = 0; // the number of the reading that is under way
  let tried = false; // whether a script was written of which nothing is known yet
  let broken = null; // the text that was refused, as long as it stands there

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

  /** Shows the script that is in force. What somebody is typing just now stays, unless it is of another kernel. */
  async function refresh({ another = false } = {}) {
    if (another) {
      forget(); // it would be tried on the kernel that is shown now
      text.disabled = run.disabled = true;
    }
    if (!root.open || tried || text.value !== kept || text.value === broken) return;
    const mine = ++reading;
    const found = await read();
    if (!found || signal.aborted || mine !== reading || tried || text.value !== kept || text.value === broken) return;
    kept = found.text;
    if (text.value !== kept) text.value = kept; // the cursor stays where it is
    note.textContent = found.why;
    text.disabled = run.disabled = Boolean(found.why);
    paint();
  }

  /** What is typed is not wanted any more. */
  function forget() {
    clearTimeout(timer);
    tried = false;
    broken = null;
    kept = text.value;
  }

  /** The knobs count again. */
  function leave() {
    forget();
    own();
  }

  async function attempt() {
    clearTimeout(timer);
    if (text.value === kept && text.value !== broken) return;
    kept = text.value;
    tried = true;
    say([], "", "trying it…");
    if (!(await write(text.value))) tried = false;
  }

  function goTo(line) {
    const before = text.value.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    text.focus();
    text.setSelectionRange(before, before + (text.value.split("\n")[line - 1]?.length ?? 0));
  }

  function tryLater() {
    say([], "", "it is tried when you pause");
    clearTimeout(timer);
    timer = setTimeout(attempt, TYPING_MILLISECONDS);
  }

  /** Puts the script that is in force in place of a text that was refused. */
  function restore() {
    forget();
    say([], "");
    wayBack(false, false);
    refresh();
  }

  atEnd(signal, () => clearTimeout(timer));

  return {
    refresh,
    forget,
    leave,
    /** What came of a step: whether a script of the user's is in force, whether the step is about one that was `written`,
     *  and what is wrong with that. */
    show({ inForce, written, refused, problems: found }) {
      if (written) {
        tried = false;
        broken = refused ? kept : null;
      }
      const stands = broken !== null && text.value === broken;
      wayBack(inForce, stands);
      if (written || !stands) say(found, refused); // else what is wrong with the text that stands there still is
    },
  };

  /** From a script that is in force to the knobs, or from a text that was refused to the one in force. */
  function wayBack(inForce, broken) {
    back.disabled = !inForce && !broken;
    back.dataset.restores = broken && !inForce ? "yes" : "";
    back.textContent = back.dataset.restores ? "Restore the text" : "Use the knobs again";
  }

  /** Problems at their lines, or why all of it is refused; else what is being done. */
  function say(found, refused, doing = "") {
    wrong = new Map(found.filter(({ line }) => line).map(({ line, message }) => [line, message]));
    paint();
    const lines = found.map(({ line, message }) => {
      const place = line ? `line ${line}: ` : "";
      return button(place + message, () => line && goTo(line), { class: "kn-why" });
    });
    const all = refused ? element("span", { class: "kn-why" }, refused) : element("span", { class: "soft" }, doing);
    problems.replaceChildren(...(lines.length ? lines : refused || doing ? [all] : []));
  }
}
