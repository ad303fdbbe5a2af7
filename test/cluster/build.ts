import { spawn } from "node:child_process";
import { dirname } from "node:path";
import type { BinarySource } from "./modules.ts";
import { elapsed, type Progress } from "./progress.ts";
import { useModule } from "./releases.ts";

const TICK_MS = 1_000;

/** Maximum number of lines of Go's output in an error. */
const TAIL_LINES = 20;

/** Whether `go` can be started. */
export async function hasGo(env: NodeJS.ProcessEnv): Promise<boolean> {
  return await new Promise((resolve) => {
    const child = spawn("go", ["version"], { env, stdio: "ignore" });
    child.once("error", () => resolve(false));
    child.once("exit", (code) => resolve(code === 0));
  });
}

export interface BuildOptions {
  env: NodeJS.ProcessEnv;
  progress: Progress;
}

/**
 * Builds one static binary from its module. Go fetches modules according to the user's own settings (GOPROXY, GOSUMDB).
 */
export async function goBuild(source: BinarySource, output: string, options: BuildOptions): Promise<void> {
  const { env, progress } = options;
  const started = performance.now();
  const title = `${source.name} ${source.version}`;
  progress.say(`${title}: building with Go, once; later runs find it in the cache`);
  const { origin } = source;
  const toolchain = typeof origin !== "string" && origin.fetchesGo ? { GOTOOLCHAIN: "auto" } : {};
  const { cwd, flags } = await useModule(origin, source.name, { folder: dirname(output), env });
  const child = spawn("go", ["build", "-v", ...flags, ...source.flags, "-o", output, source.package], {
    cwd,
    // The compiler collects garbage less often. This takes 20% less CPU time and more memory (measured with Helm).
    env: { GOGC: "1000", ...env, CGO_ENABLED: "0", GOWORK: "off", GOOS: "", GOARCH: "", ...toolchain },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const log = new BuildLog();
  child.stderr.setEncoding("utf8").on("data", (text: string) => log.add(text));
  const ticker = setInterval(() => progress.status(`${title}: ${log.summary()}`), TICK_MS);
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  }).finally(() => clearInterval(ticker));
  if (code !== 0) throw new Error(`${title}: go build ended with ${code}\n${log.tail()}`);
  progress.say(`${title}: built in ${elapsed(performance.now() - started)}`);
}

/** Counts the output of `go build -v`, which is a line for each fetched module and each compiled package. */
class BuildLog {
  #fetched = 0;
  #compiled = 0;
  #rest = "";
  readonly #last: string[] = [];

  add(text: string): void {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line.startsWith("go: downloading ")) this.#fetched++;
      else this.#compiled++;
      this.#last.push(line);
      if (this.#last.length > TAIL_LINES) this.#last.shift();
    }
  }

  summary(): string {
    return `${this.#fetched} modules fetched, ${this.#compiled} packages compiled so far`;
  }

  tail(): string {
    return [...this.#last, this.#rest].join("\n").trim();
  }
}
