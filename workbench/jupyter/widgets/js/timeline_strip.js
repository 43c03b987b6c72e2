// Shares of time as pixels: a strip of columns, in which colours are stacked on top of each other, as high as their
// shares.

const WHOLE = 255;

/** A canvas of `width` x `height` whose pixels are written one by one. */
export class Strip {
  constructor(width, height) {
    this.canvas = new OffscreenCanvas(width, height);
    this.context = this.canvas.getContext("2d");
    this.image = this.context.createImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.width = width;
    this.height = height;
    this.tops = new Float32Array(width);
  }

  clear() {
    this.pixels.fill(0);
    this.tops.fill(0);
  }

  /** Stacks a layer on top: `shares[at + column - from]` high in each column, in the colours of a tile. */
  layer(tile, shares, at, from, until, alpha) {
    const { height, tops } = this;
    for (let column = from; column < until; column++) {
      const share = shares[at + column - from];
      if (share <= 0) continue;
      const low = tops[column];
      const high = Math.min(low + share * height, height);
      tops[column] = high;
      this.column(tile, column, low, high, alpha);
    }
  }

  /** Fills a column between two heights; a pixel that is filled only in part is fainter. */
  column(tile, column, low, high, alpha) {
    const { pixels, width, height } = this;
    const { size, colours } = tile;
    for (let step = Math.floor(low); step < high; step++) {
      const covered = Math.min(high, step + 1) - Math.max(low, step);
      const row = height - 1 - step;
      const at = row * width + column;
      const opaque = Math.round(covered * alpha * WHOLE);
      if (opaque > pixels[at] >>> 24) {
        pixels[at] = (colours[(row % size) * size + (column % size)] & 0xffffff) | (opaque << 24);
      }
    }
  }

  /** Draws the strip with its upper edge at `top`. */
  drawOn(context, top) {
    this.context.putImageData(this.image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.canvas, 0, top);
  }
}

/** The colours of a small canvas as a tile that repeats. */
export function tileOf(canvas) {
  const { width, height } = canvas;
  const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  return { size: width, colours: new Uint32Array(data.buffer) };
}

/** Strips by their height, all equally wide, made when they are first used. */
export class Strips {
  constructor(width) {
    this.width = width;
    this.made = new Map();
  }

  of(height) {
    if (!this.made.has(height)) this.made.set(height, new Strip(this.width, height));
    const strip = this.made.get(height);
    strip.clear();
    return strip;
  }
}
