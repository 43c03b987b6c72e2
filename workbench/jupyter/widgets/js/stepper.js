import { widget } from "./common.js";

export default widget(() => {});
