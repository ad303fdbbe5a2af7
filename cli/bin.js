#!/usr/bin/env node
import * as nodeModule from "node:module";
import { homedir } from "node:os";
import { join } from "node:path";

// Checked before anything is loaded: an older Node would fail with a stack trace at syntax that it does not know.
const OLDEST = 22;
if (Number.parseInt(process.versions.node, 10) < OLDEST) {
  process.stderr.write(`switchback: needs Node ${OLDEST} or newer; this is ${process.version}\n`);
  process.exit(2);
}

// A short command spends most of its time on stripping types and compiling. Node keeps the result in the user's own
// cache directory. Other users could put code into a shared one, such as Node's default in the temporary directory.
// This file is JavaScript because it runs before the cache is enabled: Node's type stripper alone costs 40 ms.
nodeModule.enableCompileCache(join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "switchback", "code"));
await import("./main.ts");
