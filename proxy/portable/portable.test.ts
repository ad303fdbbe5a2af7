import { conformance } from "../conformance/suite.ts";
import { makePortableEngine } from "./engine.ts";

conformance("portable", makePortableEngine, {
  module: new URL("./engine.ts", import.meta.url),
  factory: "makePortableEngine",
});
