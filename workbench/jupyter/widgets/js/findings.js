// The findings of the rules, as cards: a press selects the kernel and spans of a finding; a button tries its remedy.
import { button, element, uniqueId } from "./common.js";
import { placeMarkup } from "./markup.js";

/** Draws the findings in `host`. `spans()` are the selected rows of the events, `choose(text)` selects a kernel. */
export function createFindings(host, { link, signal, spans, choose, pick }) {
  const list = element("div", { class: "findings", role: "list" });
  const said = element("p", { class: "soft", role: "status" }, "The rules are looking…");
  const only = element("input", { type: "checkbox", onchange: draw });
  const tools = element("label", { class: "fi-only" }, only, "only of what is selected");
  const binds = element("p", { class: "fi-binds", hidden: true });
  host.append(binds, tools, said, list);
  let cards = [];
  const trying = new Set(); // the rows of the findings that are being measured

  function boxOf(card, row) {
    const goThere = () => (card.kernel ? choose(card.kernel) : pick(card.spans[0], "spans"));
    const show = button("show", goThere, { "aria-label": `show ${card.title}` });
    const body = element("div", {});
    placeMarkup(body, card.html);
    const buttons = element("div", { class: "fi-acts" }, ...(card.kernel || card.spans.length ? [show] : []));
    if (card.tries) buttons.append(...measureOf(card, row));
    return element("div", { class: "fi-card", role: "listitem" }, body, buttons);
  }

  /** The button that tries a remedy; if nobody can answer, the reason why it cannot. */
  function measureOf(card, row) {
    const measure = button("", tryIt);
    const says = (text) => {
      measure.textContent = text;
      measure.setAttribute("aria-label", `${text}: what the remedy of ${card.title} saves`); // the label begins with the visible text
    };
    says(trying.has(row) ? "trying…" : "try it");
    measure.disabled = trying.has(row);
    const reason = link.cannot("measure", { row });
    if (reason) {
      const why = element("span", { class: "soft", id: uniqueId("fi-why") }, link.gone() ? "the kernel is gone" : "needs Python: j.widget()");
      Object.assign(measure, { disabled: true, title: reason });
      measure.setAttribute("aria-describedby", why.id);
      return [measure, why];
    }
    return [measure];

    async function tryIt() {
      measure.disabled = true;
      says("trying…");
      trying.add(row);
      const found = await link.ask("measure", { row });
      trying.delete(row);
      if (signal.aborted) return;
      if (found) cards[row] = { ...cards[row], ...found.answer.card };
      draw();
    }
  }

  function draw() {
    const selected = new Set(spans());
    const isMeant = (card) => !selected.size || card.spans.some((span) => selected.has(span));
    const shown = cards.map((card, row) => ({ card, row })).filter(({ card }) => !only.checked || isMeant(card));
    list.replaceChildren(...shown.map(({ card, row }) => boxOf(card, row)));
    if (!cards.length) return;
    const left = cards.length - shown.length;
    said.textContent = left ? `${shown.length} of ${cards.length} findings` : `${cards.length} findings, those about what binds the run first`;
  }

  link.atGone(draw);
  async function openCards() {
    const found = await link.ask("open");
    if (!found || signal.aborted) return;
    cards = found.answer.cards;
    binds.textContent = found.answer.binding ?? "";
    binds.hidden = !binds.textContent;
    said.textContent = found.answer.note ?? "No rule has found anything.";
    tools.hidden = !cards.length;
    draw();
  }
  return { selected: () => only.checked && draw(), shown: draw, ready: openCards() };
}

/** A finding that came or went between two journeys; in parentheses the cycles at stake, where they are known. */
export function movedFinding({ change, rule, what, reason }, stakes = "") {
  const named = ` · ${rule} · ${what}${stakes ? " " : ": "}`;
  return element("p", { class: change }, element("b", {}, change), named,
    element("span", { class: "soft" }, stakes ? `(${stakes}) ${reason}` : reason));
}
