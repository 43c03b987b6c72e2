// The lab as a page of its own: no Python, no network. Below it, folded, is the content for browsers without this
// script.
import { element, widget } from "./common.js";
import { RecordedModel, unpackedRecord } from "./record.js";
import { createStepper } from "./stepper.js";

async function openPage() {
  const host = document.getElementById("lab");
  try {
    const record = await unpackedRecord(document.getElementById("record").textContent);
    document.getElementById("record").remove();
    host.model = new RecordedModel(record); // for use in the browser's console
    widget(createStepper).render({ model: host.model, el: host });
    document.getElementById("static").open = false;
  } catch (error) {
    host.append(element("p", {}, `${error.message}. All that was recorded stands below, without the lab.`));
  }
}

export default openPage();
