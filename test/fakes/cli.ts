import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { runTool, type ToolResult } from "../cluster/tools.ts";

const MAIN = fileURLToPath(new URL("../../cli/main.ts", import.meta.url));

/** Runs `switchback` as a process, with these variables and PATH only. */
export async function switchback(args: string[], env: Record<string, string> = {}, input = ""): Promise<ToolResult> {
  return await runTool(process.execPath, [MAIN, ...args], env, input);
}

/** What a command gets, with what it wrote. */
export function captured(env: Readonly<Record<string, string>> = {}) {
  const written = { stdout: "", stderr: "" };
  const collect = (key: keyof typeof written) =>
    new Writable({
      write(chunk, _encoding, done) {
        written[key] += String(chunk);
        done();
      },
    });
  return { context: { env, stdout: collect("stdout"), stderr: collect("stderr") }, written };
}

/** A person at the terminal, who types `input` and closes it. @returns whether a text was shown, such as a question. */
export function atTerminal(t: TestContext, input: string): (text: string) => boolean {
  const { stdin, stdout } = process;
  Object.defineProperty(process, "stdin", { value: Readable.from([input]), configurable: true });
  t.after(() => Object.defineProperty(process, "stdin", { value: stdin, configurable: true }));
  const write = t.mock.method(stdout, "write");
  // The test runner writes there too.
  return (text) => write.mock.calls.some((call) => String(call.arguments[0]).includes(text));
}

/** A folder for the files of one test. */
export async function filesFolder() {
  const folder = await mkdtemp(join(tmpdir(), "switchback-cli-"));
  return {
    async file(name: string, text: string): Promise<string> {
      await writeFile(join(folder, name), text);
      return join(folder, name);
    },
    /** A kubeconfig without credentials; plain HTTP is let through only where TLS would not be checked either. */
    kubeconfig(server: URL): Promise<string> {
      const config = {
        apiVersion: "v1",
        kind: "Config",
        clusters: [{ name: "c", cluster: { server: server.origin, "insecure-skip-tls-verify": true } }],
        users: [{ name: "u", user: {} }],
        contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
        "current-context": "x",
      };
      return this.file("kubeconfig", JSON.stringify(config));
    },
    remove: () => rm(folder, { recursive: true }),
  };
}
