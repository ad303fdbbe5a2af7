import { conformance } from "../conformance/suite.ts";
import { makeLinuxEngine } from "./engine.ts";

conformance("linux", makeLinuxEngine, {
  module: new URL("./engine.ts", import.meta.url),
  factory: "makeLinuxEngine",
});
