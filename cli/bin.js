#!/usr/bin/env node
import * as nodeModule from "node:module";
import { homedir } from "node:os";
import { join } from "node:path";

// Before anything is loaded: an older Node would stop at a syntax or a function that it does not know, with a stack trace.
const OLDEST = 22;
if (Number.parseInt(process.versions.node, 10) < OLDEST) {
  process.stderr.write(`switchback: needs Node ${OLDEST} or newer; this is ${process.version}\n`);
  process.exit(2);
}

// Stripping types and compiling at each start is most of what a short command costs; Node keeps the result. In the user's own cache
// directory: a shared one, such as the temporary directory that is Node's default, would let others put code there. JavaScript, because
// this file comes before the cache, and Node's type stripper alone costs 40 ms.
nodeModule.enableCompileCache(join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "switchback", "code"));
await import("./main.ts");
