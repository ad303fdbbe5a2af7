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
