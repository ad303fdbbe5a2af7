import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { progressLines } from "../progress.ts";
import { requireNoKubelet, requirePrograms } from "./requirements.ts";

// If a machine lacks something, one line says what is wrong, and where.

let folder: string;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "switchback-requirements-"));
});
after(() => rm(folder, { recursive: true }));

test("missing programs that cannot be installed are named by their packages", async () => {
  const { PATH } = process.env;
  process.env.PATH = folder;
  try {
    const progress = progressLines(() => assert.fail("nothing is installed"));
    const message = /^missing: (?=.*\biproute2\b)(?=.*\brunc\b)(?=.*\bmusl-tools\b)[^\n]+\(names of Debian packages\)$/;
    await assert.rejects(requirePrograms(progress), { name: "NotHere", message });
  } finally {
    process.env.PATH = PATH;
  }
});

test("an existing kubelet is left alone; a socket that our crash has left does not count as a kubelet", async () => {
  const socket = join(folder, "kubelet.sock");
  const none = join(folder, "none");
  await requireNoKubelet(socket, none);
  await writeFile(socket, "");
  const taken = { name: "NotHere", message: new RegExp(`^${socket} is taken: this machine has a kubelet, [^\\n]+$`) };
  await assert.rejects(requireNoKubelet(socket, none), taken);
  await requireNoKubelet(socket, folder);
});
