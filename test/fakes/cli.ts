import { mkdtempSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Readable, Writable } from "node:stream";
import { after, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { createOutput } from "#cli/output.ts";
import { run } from "#cli/run.ts";
import { runTool, type ToolResult } from "../cluster/tools.ts";

export const MAIN = fileURLToPath(new URL("../../cli/main.ts", import.meta.url));

/** Runs `switchback` as a process, with these variables and `bareEnvironment` only. */
export async function switchback(args: string[], env: Record<string, string> = {}, input = ""): Promise<ToolResult> {
  return await runTool(process.execPath, [MAIN, ...args], env, input);
}

/**
 * Runs a command line in this process, which takes a hundredth of the time. Do not use it for commands that read
 * standard input or start processes.
 */
export async function runHere(args: readonly string[], env: Readonly<Record<string, string>>): Promise<ToolResult> {
  const { context, written } = captured(env);
  const code = await run(args, context);
  return { code, ...written };
}

/** The context of a command, and what the command wrote. */
export function captured(env: Readonly<Record<string, string>> = {}) {
  const written = { stdout: "", stderr: "" };
  const collect = (key: keyof typeof written) => {
    const stream = new Writable({
      write(chunk, _encoding, done) {
        written[key] += String(chunk);
        done();
      },
    });
    return createOutput(stream);
  };
  const progress = { during: <T>(_what: string, work: () => Promise<T>) => work() };
  return { context: { env, stdout: collect("stdout"), stderr: collect("stderr"), progress }, written };
}

/**
 * Simulates a user at the terminal who types `input` and closes it. @returns a function that says whether a text was
 * shown, such as a question.
 */
export function atTerminal(t: TestContext, input: string): (text: string) => boolean {
  const { stdin, stderr } = process;
  const keyboard = Object.assign(Readable.from([input]), { isTTY: true });
  Object.defineProperty(process, "stdin", { value: keyboard, configurable: true });
  const screen = Object.getOwnPropertyDescriptor(stderr, "isTTY");
  Object.defineProperty(stderr, "isTTY", { value: true, configurable: true });
  t.after(() => {
    Object.defineProperty(process, "stdin", { value: stdin, configurable: true });
    Object.defineProperty(stderr, "isTTY", screen ?? { value: undefined, configurable: true });
  });
  const write = t.mock.method(stderr, "write");
  // The test runner also writes there, so the check searches all calls.
  return (text) => write.mock.calls.some((call) => String(call.arguments[0]).includes(text));
}

/** A folder for the files of the tests in one file or suite. It is removed after these tests. */
export function useFiles() {
  const files = filesFolder();
  after(() => files.remove());
  return files;
}

/** A folder for files, which exists until `remove`. */
export function filesFolder() {
  const folder = mkdtempSync(join(tmpdir(), "switchback-cli-"));
  return {
    async file(name: string, text: string | Buffer): Promise<string> {
      await writeFile(join(folder, name), text);
      return join(folder, name);
    },
    /** Writes files into a folder `name`, by their path in this folder. */
    async folder(name: string, texts: Readonly<Record<string, string | Buffer>>): Promise<string> {
      await mkdir(join(folder, name));
      for (const [path, text] of Object.entries(texts)) {
        await mkdir(dirname(join(folder, name, path)), { recursive: true });
        await writeFile(join(folder, name, path), text);
      }
      return join(folder, name);
    },
    /** A kubeconfig without credentials. The client accepts plain HTTP only where TLS would not be checked either. */
    kubeconfig(server: URL): Promise<string> {
      return this.file("kubeconfig", this.kubeconfigText(server));
    },
    kubeconfigText(server: URL): string {
      return JSON.stringify({
        apiVersion: "v1",
        kind: "Config",
        clusters: [{ name: "c", cluster: { server: server.origin, "insecure-skip-tls-verify": true } }],
        users: [{ name: "u", user: {} }],
        contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
        "current-context": "x",
      });
    },
    remove: () => rm(folder, { recursive: true }),
  };
}
