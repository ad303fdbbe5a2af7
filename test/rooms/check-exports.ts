import { needlessExportsOfTree } from "./exports.ts";

// `npm run exports`: every export of production code is imported by another file, and not by tests alone.

const found = needlessExportsOfTree();
for (const { file, name, why } of found) {
  const text = why === "unused" ? "is exported, and no file imports it" : "is used by tests only";
  console.error(`${file}: ${name} ${text}`);
}
if (found.length > 0) process.exitCode = 1;
