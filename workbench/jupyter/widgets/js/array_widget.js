// One matmul on its array, as a widget of its own.
import { widget } from "./common.js";
import { createArray } from "./array.js";
import { lookLink } from "./looks.js";

export default widget(({ root, link, signal }) => createArray(root, { link: lookLink(link, "array"), signal }));
