import { access, constants, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { apt } from "../debian.ts";
import type { Progress } from "../progress.ts";
import { DEVICE_PLUGINS, STATE_FOLDER } from "./layout.ts";
import { run } from "./run.ts";

/** Programs that the machine must have, and the Debian package of each. */
const PROGRAMS: Record<string, string> = {
  ip: "iproute2",
  runc: "runc",
  nft: "nftables",
  conntrack: "conntrack",
  haproxy: "haproxy",
  nginx: "nginx-light",
  "musl-gcc": "musl-tools",
  mount: "mount",
  sysctl: "procps",
  nsenter: "util-linux",
  ldd: "libc-bin",
  tar: "tar",
};
/** Programs with which Felix writes its rules. */
const POLICY_PROGRAMS: Record<string, string> = { "iptables-nft-restore": "iptables", ipset: "ipset" };
const FILES: Record<string, string> = { "/usr/lib/nginx/modules/ngx_stream_module.so": "libnginx-mod-stream" };
const FOLDERS = ["/usr/sbin", "/sbin", "/usr/local/sbin"];
const KUBELET_SOCKET = join(DEVICE_PLUGINS, "kubelet.sock");
const POLICY = "/usr/sbin/policy-rc.d";

/** A cluster cannot run here. The message is one line that says what is missing, and how to get it. */
export class NotHere extends Error {
  override readonly name = "NotHere";
}

/** @throws NotHere */
export function requireRoot(): void {
  if (process.platform !== "linux") throw new NotHere(`a node needs Linux, this is ${process.platform}: use kind`);
  if (process.getuid?.() === 0) return;
  throw new NotHere("a node needs root (namespaces, mounts): run it with sudo, or use kind");
}

/**
 * Requires Linux, root, no other kubelet, and the machine's own programs (`networkPolicies`: also Felix's). On
 * Debian, missing packages are installed.
 * @throws NotHere
 */
export async function requireMachine(progress: Progress, networkPolicies: boolean): Promise<void> {
  requireRoot();
  await requireNoKubelet();
  process.env.PATH = [process.env.PATH, ...FOLDERS].join(":");
  await requirePrograms(progress, networkPolicies ? { ...PROGRAMS, ...POLICY_PROGRAMS } : PROGRAMS);
  const filesystems = await readFile("/proc/filesystems", "utf8");
  if (!filesystems.includes("\toverlay\n")) await run("modprobe", "overlay");
}

/**
 * Checks for another kubelet. The path of a kubelet's socket for device plugins is fixed, so ours would replace the
 * other kubelet's socket. A crash of ours also leaves a socket, but then our state folder exists.
 * @throws NotHere
 */
export async function requireNoKubelet(socket = KUBELET_SOCKET, state = STATE_FOLDER): Promise<void> {
  if ((await exists(state, constants.F_OK)) || !(await exists(socket, constants.F_OK))) return;
  throw new NotHere(
    `${socket} is taken: this machine has a kubelet, and a second one would disturb it; use another machine, or kind`,
  );
}

/** @throws NotHere */
export async function requirePrograms(progress: Progress, programs = PROGRAMS): Promise<void> {
  let missing = await missingPackages(programs);
  if (missing.length > 0) {
    const install = `apt-get install --no-install-recommends ${missing.join(" ")}`;
    if (!(await found("apt-get"))) throw new NotHere(`missing: ${missing.join(", ")} (names of Debian packages)`);
    progress.say(`installing ${missing.join(" ")}`);
    await aptInstall(missing).catch((error: unknown) => {
      throw new NotHere(`could not install the missing packages; try: ${install} (${String(error)})`, { cause: error });
    });
    missing = await missingPackages(programs);
    if (missing.length > 0) throw new NotHere(`still missing after the installation: ${missing.join(", ")}`);
  }
}

async function missingPackages(programs: Record<string, string>): Promise<string[]> {
  const missing = new Set<string>();
  for (const [program, name] of Object.entries(programs)) if (!(await found(program))) missing.add(name);
  for (const [file, name] of Object.entries(FILES)) if (!(await exists(file, constants.R_OK))) missing.add(name);
  return [...missing];
}

/** Packages of servers start their services. The policy forbids this during the installation. */
async function aptInstall(packages: string[]): Promise<void> {
  const ours = !(await exists(POLICY, constants.F_OK));
  if (ours) await writeFile(POLICY, "#!/bin/sh\nexit 101\n", { mode: 0o755 });
  try {
    const install = ["install", "-y", "--no-install-recommends", ...packages];
    await apt(install).catch(async () => {
      await apt(["update"]);
      await apt(install);
    });
  } finally {
    if (ours) await rm(POLICY, { force: true });
  }
}

async function found(program: string): Promise<boolean> {
  return await programPath(program).then(
    () => true,
    () => false,
  );
}

/** The path of an installed program. @throws NotHere */
export async function programPath(program: string): Promise<string> {
  for (const folder of (process.env.PATH ?? "").split(":")) {
    const path = join(folder, program);
    if (await exists(path, constants.X_OK)) return path;
  }
  throw new NotHere(`${program} is not on the PATH`);
}

async function exists(path: string, mode: number): Promise<boolean> {
  try {
    await access(path, mode);
    return true;
  } catch {
    return false;
  }
}
