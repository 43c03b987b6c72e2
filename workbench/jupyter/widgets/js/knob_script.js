// A kernel's transform script as text: numbered lines, and each problem at its own line.
import { atEnd, button, element } from "./common.js";

const TYPING_MILLISECONDS = 700; // after a pause of this length the script is tried

/** The editor. `read()` resolves to `{ text, why }`, `write(text)` tries a script, `own()` removes the user's script.
 *  */
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
  let reading = 0; // the number of the current reading
  let tried = false; // true if a script was written whose result is not known yet
  let broken = null; // the refused text, as long as it is in the field

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

  /** Shows the script in force. A text that somebody is typing stays, unless it is of another kernel. */
  async function refresh({ another = false } = {}) {
    if (another) {
      forget(); // else the text would be tried on the kernel that is shown now
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

  /** Forgets the typed text. */
  function forget() {
    clearTimeout(timer);
    tried = false;
    broken = null;
    kept = text.value;
  }

  /** Removes the script: the knobs count again. */
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

  /** Replaces a refused text by the script in force. */
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
    /** Shows the result of a step: if a script of the user's is in force, if the step tried a script (`written`), and
     *  the problems in it. */
    show({ inForce, written, refused, problems: found }) {
      if (written) {
        tried = false;
        broken = refused ? kept : null;
      }
      const stands = broken !== null && text.value === broken;
      wayBack(inForce, stands);
      if (written || !stands) say(found, refused); // else the problems of the text in the field stay visible
    },
  };

  /** The label of the way back: from a script in force to the knobs, or from a refused text to the script in force. */
  function wayBack(inForce, broken) {
    back.disabled = !inForce && !broken;
    back.dataset.restores = broken && !inForce ? "yes" : "";
    back.textContent = back.dataset.restores ? "Restore the text" : "Use the knobs again";
  }

  /** Shows problems at their lines, or the reason why the whole script is refused; else the current work. */
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
