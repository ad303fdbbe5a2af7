import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { promisify } from "node:util";
import { kubeletFiles, uidOf } from "#test/fakes/kubelet-files.ts";

const PROGRAM = join(import.meta.dirname, "fakes", "confined-program.ts");
const run = promisify(execFile);

/**
 * Runs the program with a pod that has a hosts file, a token and a program, and with a server at `port`. Returns what
 * the program could do.
 */
async function attack(t: TestContext, envOf: (port: number) => Record<string, string> = () => ({})) {
  const kubelet = kubeletFiles(t);
  const text = kubelet.write(uidOf(1));
  const pod = join(kubelet.pods, uidOf(1));
  writeFileSync(join(pod, "token"), "token");
  writeFileSync(join(pod, "program"), "#!/bin/sh\n", { mode: 0o755 });
  writeFileSync(join(kubelet.root, "config.yaml"), "");
  const elsewhere = realpathSync(mkdtempSync(join(tmpdir(), "switchback-elsewhere-")));
  t.after(() => rmSync(elsewhere, { recursive: true }));
  writeFileSync(join(elsewhere, "file"), "");
  writeFileSync(join(elsewhere, "node-hosts"), "127.0.0.1 localhost\n");
  const server = createServer((socket) => socket.destroy()).listen(0, "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const { stdout } = await run(process.execPath, [PROGRAM, kubelet.root, elsewhere, String(port)], {
    env: { PATH: process.env.PATH, ...envOf(port) },
    timeout: 60_000,
  });
  return {
    outcomes: JSON.parse(stdout) as Record<string, unknown>,
    hosts: readFileSync(kubelet.path(uidOf(1)), "latin1"),
    text,
    files: readdirSync(pod).sort(),
  };
}

test("a confined agent changes hosts files, but cannot create, remove, rename, link or execute", async (t) => {
  const { outcomes, hosts, text, files } = await attack(t);
  const { landlock, connect, ...others } = outcomes;
  if (landlock === 0) return t.skip("this kernel has no Landlock, or it is not allowed here");
  assert.deepEqual(others, {
    samePid: true,
    longer: "written",
    shorter: "written",
    nodeLonger: "written",
    nodeShorter: "written",
    createBesideNodes: "EACCES",
    create: "EACCES",
    remove: "EACCES",
    rename: "EACCES",
    link: "EACCES",
    symlink: "EACCES",
    makeDirectory: "EACCES",
    executeInPod: "EACCES",
    execute: "EACCES",
    writeElsewhere: "EACCES",
    readElsewhere: "done",
    readKubelets: "EACCES",
  });
  // Landlock restricts ports from version 4 on.
  assert.equal(connect, Number(landlock) >= 4 ? "EACCES" : "done");
  assert.deepEqual([hosts, files], [text, ["etc-hosts", "program", "token"]]);
});

test("a confined agent may connect to the API server's port", async (t) => {
  const { outcomes } = await attack(t, (port) => ({ KUBERNETES_SERVICE_PORT: String(port) }));
  assert.equal(outcomes.connect, "done");
});

test("an agent that is marked as confined does not restart itself", async (t) => {
  const { outcomes } = await attack(t, () => ({ SWITCHBACK_CONFINED: "4" }));
  assert.deepEqual([outcomes.create, outcomes.execute, outcomes.connect], ["done", "done", "done"]);
});
