// A notebook imports this file for each widget; the widget's own module is imported once for a page. A page never
// releases a module, so a module for each widget that was opened and closed would stay.
const NAME = "aten-workbench modules";

async function imported(text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  try {
    return await import(address);
  } finally {
    URL.revokeObjectURL(address);
  }
}

export default {
  async render(context) {
    const text = context.model.get("module_text");
    const kept = (globalThis[NAME] ??= new Map());
    if (!kept.has(text)) kept.set(text, imported(text));
    return (await kept.get(text)).default.render(context);
  },
};
