// What scratchpad and tiles say, and the colours in which they say it.

import { colourOf, coloursOf } from "./canvas.js";
import { TEXTURES, textured } from "./timeline_paint.js";

export const MEMORY_LETTER = 5.9; // pixels of a letter at 10.5 px, on the average
const ROLE_KINDS = ["LOAD", "STORE", "COPY"]; // whose colours and lines roles have, as in the static picture
const INSIDE_LINES = [[3, 0, 3, 6]];
const NOT_READ_PALE = 0.35; // as in the static picture: style.HELD
let palettesMade = 0;

/** The colours of the page's theme. */
export function memoryPalette(root) {
  const named = (name) => colourOf(root, name);
  const context = new OffscreenCanvas(1, 1).getContext("2d");
  const ground = named("ground");
  const filled = (colour, lines) => ({ colour, fill: context.createPattern(textured(colour, ground, lines), "repeat") });
  const roles = ROLE_KINDS.map((kind) => filled(named(`k-${kind}`), TEXTURES[kind]));
  return {
    number: ++palettesMade,
    roles: [...roles, filled(named("h7"), INSIDE_LINES)],
    tile: named("k-LOAD"),
    ground,
    pale: NOT_READ_PALE,
    ...coloursOf(root, ["ink", "soft", "line", "faint", "accent", "mark"]),
  };
}

/** A text cut at its front, which is alike in long names, to so many letters. */
export function fittingText(text, letters) {
  const room = Math.floor(letters);
  if (text.length <= room) return text;
  return room < 3 ? "" : `…${text.slice(text.length - room + 1)}`;
}
