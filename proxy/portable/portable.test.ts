import { conformance } from "../conformance/suite.ts";
import { makePortableEngine } from "./engine.ts";

conformance("portable", makePortableEngine);
