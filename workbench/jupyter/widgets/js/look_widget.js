// A view of the lab as a widget of its own: the view that the model names.
import { widget } from "./common.js";
import { LOOKS, lookLink } from "./looks.js";

export default widget(({ model, root, link, signal }) => {
  const { name, make } = LOOKS.find((look) => look.name === model.get("look"));
  make(root, { link: lookLink(link, name), signal });
});
