import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";

const TOP = `${pathToFileURL(import.meta.dirname)}/../../`;

/** The modules of Node itself that are loaded after the import of these files. */
async function loadedBy(...files: readonly string[]): Promise<string[]> {
  const imports = files.map((file) => `await import(${JSON.stringify(TOP + file)});`).join("");
  const script = `${imports}console.log(process.moduleLoadList.join("\\n"))`;
  const args = ["--input-type=module", "--eval", script];
  return (await promisify(execFile)(process.execPath, args)).stdout.split("\n");
}

/** Checks that a component that starts with this file does not load undici and its dependencies. */
export async function assertLight(file: string): Promise<void> {
  const loaded = await loadedBy("cli/serve.ts", file);
  const http = loaded.filter((name) => /^NativeModule http$/.test(name));
  assert.equal(http.length, 1, "the list of built-in modules does not contain http");
  const unwanted = loaded.filter((name) => /^NativeModule (internal\/deps\/undici|internal\/http2\/core)/.test(name));
  assert.deepEqual(unwanted, []);
}

/** For `--import`. At its end, the process prints the URLs of the modules that it loaded to standard error. */
export const LOADED_HOOK = `data:text/javascript,${encodeURIComponent(`
  import { registerHooks } from "node:module";
  const loaded = [];
  registerHooks({ load: (url, context, next) => (loaded.push(url), next(url, context)) });
  process.on("exit", () => console.error("loaded:" + JSON.stringify(loaded)));
`)}`;

/** The URLs that `LOADED_HOOK` printed. */
export function loadedIn(stderr: string): string[] {
  return JSON.parse(stderr.split("loaded:")[1] ?? "[]");
}
