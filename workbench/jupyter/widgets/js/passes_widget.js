// The passes of one kernel, as a widget of its own.
import { widget } from "./common.js";
import { lookLink } from "./looks.js";
import { createPasses } from "./passes.js";

export default widget(({ root, link, signal }) => createPasses(root, { link: lookLink(link, "passes"), signal }));
