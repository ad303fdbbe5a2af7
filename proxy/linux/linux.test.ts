import { conformance } from "../conformance/suite.ts";
import { linuxEngine } from "./engine.ts";

conformance("linux", linuxEngine(0));
