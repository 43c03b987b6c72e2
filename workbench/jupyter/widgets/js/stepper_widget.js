// The lab as a widget of a notebook, where Python answers.
import { widget } from "./common.js";
import { createStepper } from "./stepper.js";

export default widget(createStepper);
