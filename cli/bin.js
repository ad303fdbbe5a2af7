#!/usr/bin/env node
import * as nodeModule from "node:module";
import { homedir } from "node:os";
import { join } from "node:path";

// This check runs before any other file is loaded. An older Node would fail with a stack trace at unknown syntax.
const OLDEST = 22;
if (Number.parseInt(process.versions.node, 10) < OLDEST) {
  process.stderr.write(`switchback: needs Node ${OLDEST} or newer; this is ${process.version}\n`);
  process.exit(2);
}

// A short command spends most of its time on stripping types and compiling. Node caches the result in the user's own
// directory. Other users could put code into a shared directory, such as Node's default in the temporary directory.
// This file is JavaScript because it runs before the cache is enabled, and Node's type stripper alone takes 40 ms.
nodeModule.enableCompileCache(join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "switchback", "code"));
await import("./main.ts");
