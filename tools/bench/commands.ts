import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { parseArgs } from "node:util";
import { fullStatus } from "#test/fakes/full-status.ts";
import { installed, NAMESPACE } from "#test/fakes/installed.ts";
import { fakeApi } from "#test/fakes/kube-api.ts";
import { MemoryServer } from "#test/fakes/memory-server.ts";
import { createReporter, percentile } from "./report.ts";

// The CPU time of commands that people wait for. The API server is this process; each command is a separate process.
// Another tree beside this one is measured in turns with it, because the speed of a shared machine changes over time.

const ROOT = join(import.meta.dirname, "..", "..");
/** The programs that `npx switchback` runs; an earlier tree has only the second one. */
const PROGRAMS = ["bin.js", "main.ts"];
/**
 * Writes the CPU time of the process when it exits. The time that the system needs to end the process is not
 * included.
 */
const REPORT = `data:text/javascript,${encodeURIComponent(`
  process.on("exit", () => {
    const { user, system } = process.cpuUsage();
    process.stderr.write("cpu:" + (user + system) / 1000 + "\\n");
  });
`)}`;

interface Case {
  readonly name: string;
  readonly args: readonly string[];
  readonly server: MemoryServer;
  /** Maximum, in milliseconds. */
  readonly goal?: number;
}

function cases(): Case[] {
  const leader = installed();
  leader.onCall = ({ path }) => (path.endsWith("/status") ? { status: 200, body: fullStatus() } : undefined);
  const ours = ["--namespace", NAMESPACE];
  return [
    { name: "help", args: ["--help"], server: new MemoryServer(), goal: 80 },
    { name: "doctor", args: ["doctor"], server: new MemoryServer(), goal: 350 },
    { name: "doctor-installed", args: ["doctor", ...ours], server: leader },
    { name: "status", args: ["status", ...ours], server: leader },
  ];
}

/** `npm run bench -- commands [--runs 15] [--beside TREE] [--json]`. */
export async function run(argv: string[]): Promise<void> {
  const { values } = parseArgs({
    args: argv,
    options: {
      json: { type: "boolean", default: false },
      runs: { type: "string", default: "15" },
      beside: { type: "string" },
    },
  });
  const trees = values.beside === undefined ? [ROOT] : [values.beside, ROOT];
  const reporter = createReporter("commands", values.json);
  const folder = await mkdtemp(join(tmpdir(), "switchback-bench-"));
  try {
    for (const each of cases()) {
      const samples = await measure(each, trees, Number(values.runs), folder);
      for (const tree of trees) {
        reporter.section({ command: each.name, tree: tree === ROOT ? "this" : tree });
        const used = samples.get(tree) ?? [];
        const goal = tree === ROOT ? each.goal : undefined;
        reporter.figure({ name: "cpu-p50", value: percentile(used, 0.5), unit: "ms", goal });
        reporter.figure({ name: "cpu-min", value: percentile(used, 0), unit: "ms" });
      }
    }
  } finally {
    await rm(folder, { recursive: true });
  }
}

async function measure({ args, server }: Case, trees: readonly string[], runs: number, folder: string) {
  const api = await fakeApi(server.respond);
  const kubeconfig = join(folder, "kubeconfig");
  const cluster = { server: api.url.origin, "insecure-skip-tls-verify": true };
  const config = {
    clusters: [{ name: "c", cluster }],
    users: [{ name: "u", user: {} }],
    contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
    "current-context": "x",
  };
  await writeFile(kubeconfig, JSON.stringify(config));
  const samples = new Map<string, number[]>(trees.map((tree) => [tree, []]));
  try {
    for (let round = 0; round < runs; round += 1) {
      for (const tree of trees) samples.get(tree)?.push(await cpuOfRun(tree, args, kubeconfig));
    }
  } finally {
    await api.close();
  }
  return samples;
}

/** CPU time of one run, user and system, in milliseconds. */
async function cpuOfRun(tree: string, args: readonly string[], kubeconfig: string): Promise<number> {
  const [program] = PROGRAMS.map((name) => join(tree, "cli", name)).filter((path) => existsSync(path));
  assert.ok(program);
  const command = ["--import", REPORT, program, ...args];
  const env = { PATH: process.env.PATH, KUBECONFIG: kubeconfig };
  const child = spawn(process.execPath, command, { env, stdio: ["ignore", "ignore", "pipe"] });
  const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, "close")]);
  const used = /^cpu:(.*)$/m.exec(stderr)?.[1];
  // Exit code 1 reports a finding, so the measurement is complete.
  if (used === undefined || code > 1) throw new Error(`switchback ${args.join(" ")}: ${stderr}`);
  return Number(used);
}
