// The knobs as a widget of their own.
import { widget } from "./common.js";
import { createKnobs } from "./knobs.js";
import { lookLink } from "./looks.js";

export default widget(({ root, link, signal }) => createKnobs(root, { link: lookLink(link, "knobs"), signal }));
