import { spawnSync } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import net from "node:net";
import { createLogger } from "#lib/telemetry/log.ts";
import { OWNER, uidOf } from "#test/fakes/kubelet-files.ts";
import { confine } from "../confine.ts";
import { openHostsFiles } from "../hosts-files.ts";
import { openNodeHostsFile } from "../node-hosts-file.ts";

// This program confines itself as the agent does. Then it tries what an attacker in it would try, and prints the
// outcome of each attempt.

const [root = "", elsewhere = "", listening = ""] = process.argv.slice(2);
const pod = `${root}/pods/${uidOf(1)}`;

function attempt(work: () => void): string {
  try {
    work();
    return "done";
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? String(error);
  }
}

async function connect(port: number): Promise<string> {
  const socket = net.connect(port, "127.0.0.1");
  try {
    await once(socket, "connect");
    return "done";
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? String(error);
  } finally {
    socket.destroy();
  }
}

function execute(path: string): void {
  const { error } = spawnSync(path, ["--version"]);
  if (error) throw error;
}

const pid = process.env.FIRST_PID ?? String(process.pid);
process.env.FIRST_PID = pid;
await confine({
  config: { kubeletRoot: root, healthPort: 0 },
  nodeHosts: `${elsewhere}/node-hosts`,
  env: process.env,
  log: createLogger({ level: "error" }, "agent"),
  command: [process.execPath, ...process.execArgv, ...process.argv.slice(1)],
});
const files = openHostsFiles(`${root}/pods`, OWNER);
const nodeHosts = openNodeHostsFile(`${elsewhere}/node-hosts`, OWNER);
const outcomes = {
  landlock: Number(process.env.SWITCHBACK_CONFINED ?? 0),
  samePid: pid === String(process.pid),
  longer: files.update(uidOf(1), (text) => Buffer.concat([text, Buffer.from("192.0.2.1 a\n")])).kind,
  shorter: files.update(uidOf(1), (text) => text.subarray(0, -"192.0.2.1 a\n".length)).kind,
  nodeLonger: nodeHosts.update((text) => Buffer.concat([text, Buffer.from("192.0.2.1 a\n")])).kind,
  nodeShorter: nodeHosts.update((text) => text.subarray(0, -"192.0.2.1 a\n".length)).kind,
  createBesideNodes: attempt(() => fs.writeFileSync(`${elsewhere}/new`, "")),
  create: attempt(() => fs.writeFileSync(`${pod}/new`, "")),
  remove: attempt(() => fs.unlinkSync(`${pod}/token`)),
  rename: attempt(() => fs.renameSync(`${pod}/token`, `${pod}/other`)),
  link: attempt(() => fs.linkSync(`${pod}/token`, `${pod}/other`)),
  symlink: attempt(() => fs.symlinkSync("/etc/passwd", `${pod}/other`)),
  makeDirectory: attempt(() => fs.mkdirSync(`${pod}/directory`)),
  executeInPod: attempt(() => execute(`${pod}/program`)),
  execute: attempt(() => execute("/bin/sh")),
  writeElsewhere: attempt(() => fs.writeFileSync(`${elsewhere}/file`, "changed")),
  readElsewhere: attempt(() => fs.readFileSync(`${elsewhere}/file`)),
  readKubelets: attempt(() => fs.readFileSync(`${root}/config.yaml`)),
  connect: await connect(Number(listening)),
};
process.stdout.write(JSON.stringify(outcomes));
