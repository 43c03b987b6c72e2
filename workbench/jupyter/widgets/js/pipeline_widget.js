// A kernel's loop over tiles, as a widget of its own.
import { widget } from "./common.js";
import { lookLink } from "./looks.js";
import { createPipeline } from "./pipeline.js";

export default widget(({ root, link, signal }) => createPipeline(root, { link: lookLink(link, "pipeline"), signal }));
