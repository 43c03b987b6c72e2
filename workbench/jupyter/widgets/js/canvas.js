// Canvases: as sharp as the screen, in the theme's colours; boxes, frames and words.
import { element } from "./common.js";

export const CANVAS_FONT = "10.5px system-ui, sans-serif";

/** Sizes a canvas for a sharp picture; returns its context, whose coordinates begin `edge` pixels inside the corner. */
export function sizedContext(canvas, width, height, edge = 0) {
  const ratio = devicePixelRatio || 1;
  const sides = { width: width + 2 * edge, height: height + 2 * edge };
  for (const [side, pixels] of Object.entries(sides)) {
    canvas[side] = Math.round(pixels * ratio);
    canvas.style[side] = `${pixels}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, edge * ratio, edge * ratio);
  return context;
}

/** A variable of the style sheet as a colour that a canvas takes. */
export function colourOf(root, name) {
  const probe = element("i", { style: `display:none;color:var(--${name})` });
  root.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/** Several colours by their names. */
export function coloursOf(root, names) {
  return Object.fromEntries(names.map((name) => [name, colourOf(root, name)]));
}

/** The red, green and blue parts of such a colour. */
export function partsOf(colour) {
  return colour.match(/[\d.]+/g).slice(0, 3).map(Number);
}

export function fillBox(context, fill, left, top, width, height, alpha = 1) {
  context.globalAlpha = alpha;
  context.fillStyle = fill;
  context.fillRect(left, top, width, height);
  context.globalAlpha = 1;
}

export function frameBox(context, colour, line, left, top, width, height, dashes = []) {
  context.strokeStyle = colour;
  context.lineWidth = line;
  context.setLineDash(dashes);
  context.strokeRect(left, top, width, height);
  context.setLineDash([]);
}

/** Writes a text whose middle height is at `y`, at most `most` pixels wide. */
export function writeText(context, text, x, y, colour, align = "left", most = undefined) {
  context.textAlign = align;
  context.textBaseline = "middle";
  context.fillStyle = colour;
  context.fillText(text, x, y, most);
}
