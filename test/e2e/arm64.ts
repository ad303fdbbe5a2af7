import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { imageLayers } from "#tools/release/image/layers.ts";
import { tarOf } from "#tools/release/oci/tar.ts";
import { NotHere } from "../cluster/node/requirements.ts";
import { run } from "../cluster/node/run.ts";
import type { Progress } from "../cluster/progress.ts";
import { usableBase } from "../cluster/release-base.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const QEMU = "qemu-aarch64-static";
/** qemu is some thirty times as slow as the machine itself. */
const LIMIT_MS = 45 * 60_000;

/**
 * Tests for arm64 without such a machine, under qemu's user mode. They use the Node and the C library of the
 * release's image for arm64. They run the linux engine's conformance suite and the demo from the sources, and
 * `switchback inject` from the image. The system calls are this machine's, translated by qemu. The code that makes
 * them is arm64's.
 *
 * @returns the exit code: 0 if everything passes
 */
export async function onArm64(progress: Progress): Promise<number> {
  await requireQemu();
  const folder = await mkdtemp(join(tmpdir(), "switchback-arm64-"));
  try {
    progress.say("the files of the image for arm64");
    const image = join(folder, "image");
    await unpackImage(image);
    progress.say("this checkout with the packages for arm64");
    const tree = join(folder, "tree");
    await installTree(tree);
    const onQemu = (...args: string[]) => [QEMU, "-L", image, join(image, "usr", "local", "bin", "node"), ...args];

    progress.say("inject, from the image");
    const hosts = join(folder, "hosts");
    await writeFile(hosts, "192.0.2.1 shop.example.com\n");
    const pod = join(folder, "pod.yaml");
    await writeFile(pod, POD);
    const injected = await inject([process.execPath, join(ROOT, "cli", "main.ts")], pod, hosts);
    const emulated = await inject(onQemu(join(image, "app", "cli", "main.js")), pod, hosts);
    if (emulated !== injected || !injected.includes("shop.example.com")) {
      progress.say("failed: inject prints something else than on this machine");
      return 1;
    }
    progress.say("the demo");
    const demo = await printed(onQemu("cli/main.ts", "demo"), tree);
    progress.say("the linux engine's conformance suite");
    // The skipped case starts a process. Under qemu, that works only if the kernel knows the format (binfmt_misc).
    const options = ["--test", "--test-isolation=none", "--test-reporter=spec", "--test-skip-pattern=out of files"];
    const suite = await printed(onQemu(...options, "proxy/linux/linux.test.ts"), tree);
    progress.say(demo === 0 && suite === 0 ? "all passed on arm64" : `failed: demo ${demo}, conformance ${suite}`);
    return demo === 0 ? suite : demo;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const POD = `apiVersion: v1
kind: Pod
metadata: { name: shop }
spec: { containers: [{ name: shop, image: shop }] }
`;

async function requireQemu(): Promise<void> {
  await run(QEMU, "-version").catch(() => {
    throw new NotHere(`--arm64: ${QEMU} is missing (Debian: qemu-user-static)`);
  });
}

async function unpackImage(folder: string): Promise<void> {
  const layers = await imageLayers(ROOT, (await usableBase()).debian, "arm64");
  const archive = `${folder}.tar`;
  await writeFile(
    archive,
    await tarOf(
      layers.flatMap(({ entries }) => entries),
      0,
    ),
  );
  await run("mkdir", "-p", folder);
  await run("tar", "-xf", archive, "-C", folder);
  await rm(archive);
}

/** Copies the current files that git knows, and installs the npm packages for arm64. */
async function installTree(folder: string): Promise<void> {
  const files = (await run("git", "-C", ROOT, "ls-files", "-z")).split("\0").filter(Boolean);
  for (const file of files) await cp(join(ROOT, file), join(folder, file));
  const flags = ["--ignore-scripts", "--no-audit", "--no-fund", "--os", "linux", "--cpu", "arm64"];
  await run("npm", "--prefix", folder, "ci", ...flags);
}

async function inject([program = "", ...args]: string[], pod: string, hosts: string): Promise<string> {
  const { stdout } = await promisify(execFile)(program, [...args, "inject", "-f", pod, "--hosts", hosts]);
  return stdout;
}

/** Runs a program and shows its output at once. Returns its exit code. */
async function printed([program = "", ...args]: string[], cwd: string): Promise<number> {
  // The program's test runner must not see this run's test runner.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const child = spawn(program, args, { cwd, env, stdio: ["ignore", "inherit", "inherit"], timeout: LIMIT_MS });
  const [code] = (await once(child, "close")) as [number | null];
  return code ?? 1;
}
