import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { archiveName, programName } from "./executables.ts";
import { npmPackageFile } from "./npm-package.ts";
import { tryCommand } from "./try-command.ts";

// `npm run release:check -- FOLDER [--node PATH...] [--arm64 "EMULATOR ARGUMENTS"]`: runs the commands of a release
// as far as this machine can: the npm package on each given Node and on this one, the executable for linux/amd64, and
// with an emulator the one for linux/arm64.

const USAGE = 'usage: npm run release:check -- FOLDER [--node PATH...] [--arm64 "qemu-aarch64-static -L ROOT"]';
const TOP = join(import.meta.dirname, "..", "..", "..");

const { values, positionals } = parseArgs({
  options: { node: { type: "string", multiple: true, default: [] }, arm64: { type: "string" } },
  allowPositionals: true,
});
const [given] = positionals;
if (given === undefined || positionals.length > 1) throw new Error(USAGE);
const folder = resolve(given);
const { version } = JSON.parse(readFileSync(join(TOP, "package.json"), "utf8")) as { version: string };
const work = mkdtempSync(join(tmpdir(), "switchback-check-"));

function unpack(archive: string): string {
  const to = join(work, archive);
  mkdirSync(to);
  execFileSync("tar", ["-xzf", join(folder, archive), "-C", to]);
  return to;
}

async function attempt(what: string, command: readonly [string, ...string[]], isEmulated = false): Promise<void> {
  const started = performance.now();
  await tryCommand(command, version, isEmulated);
  const but = isEmulated ? ", but for the agent, which starts itself" : "";
  process.stdout.write(`${what}: runs${but} (${Math.round((performance.now() - started) / 1000)} s)\n`);
}

async function attemptExecutable(arch: "amd64" | "arm64", emulator: readonly string[] = []): Promise<void> {
  const platform = { os: "linux", arch } as const;
  const program = join(unpack(archiveName(version, platform)), programName(platform));
  const [first = program, ...rest] = [...emulator, program];
  await attempt(`linux/${arch}`, [first, ...rest], emulator.length > 0);
}

try {
  execFileSync("sha256sum", ["--check", "--strict", "--quiet", "SHA256SUMS"], { cwd: folder, stdio: "inherit" });
  const bin = join(unpack(npmPackageFile({ version })), "package", "cli", "bin.js");
  for (const node of [process.execPath, ...values.node]) {
    const name = execFileSync(node, ["--version"], { encoding: "utf8" }).trim();
    await attempt(`npm package on Node ${name}`, [node, bin]);
  }
  await attemptExecutable("amd64");
  if (values.arm64 === undefined) process.stdout.write("linux/arm64: NOT RUN: no --arm64\n");
  else await attemptExecutable("arm64", values.arm64.split(" "));
  process.stdout.write("darwin and windows: NOT RUN: they cannot be run here\n");
} finally {
  rmSync(work, { recursive: true });
}
