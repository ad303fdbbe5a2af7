import assert from "node:assert/strict";
import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { kubeletFiles, OWNER, uidOf } from "#test/fakes/kubelet-files.ts";
import { hostsFileLimits } from "./hosts-file-limits.ts";
import { type HostsFiles, openHostsFiles } from "./hosts-files.ts";

const UID = uidOf(1);
const LINE = "198.51.100.9\ta.example.com\n";
const { bytes: MAX_BYTES } = hostsFileLimits();
const add = (content: Buffer): Buffer => Buffer.concat([content, Buffer.from(LINE)]);

function start(t: TestContext) {
  const kubelet = kubeletFiles(t);
  const files = openHostsFiles(kubelet.pods, OWNER);
  t.after(() => files.close());
  return { kubelet, files, path: kubelet.path(UID) };
}

function codeOf(files: HostsFiles, change = add, uid = UID): string {
  const outcome = files.update(uid, change);
  return outcome.kind === "refused" ? outcome.reason.code : outcome.kind;
}

test("a file is written up to the limit, and refused with one more byte", (t) => {
  const { kubelet, files, path } = start(t);
  const header = kubelet.write(UID);
  appendFileSync(path, "\n".repeat(MAX_BYTES - header.length - LINE.length));
  assert.equal(codeOf(files), "written");
  truncateSync(path, MAX_BYTES + 1);
  assert.equal(codeOf(files), "file-too-large");
});

test("a file that changes during each read is read at most three times", (t) => {
  const { kubelet, files, path } = start(t);
  kubelet.write(UID);
  let reads = 0;
  const busy = (content: Buffer) => {
    reads += 1;
    appendFileSync(path, "10.0.0.2 busy\n");
    return add(content);
  };
  assert.deepEqual([codeOf(files, busy), reads], ["file-busy", 3]);
  reads = 0;
  const calmsDown = (content: Buffer) => {
    reads += 1;
    if (reads < 3) appendFileSync(path, "10.0.0.2 busy\n");
    return add(content);
  };
  assert.deepEqual([codeOf(files, calmsDown), reads], ["written", 3]);
});

test("a file that is shortened during the update is read again", (t) => {
  const { kubelet, files, path } = start(t);
  const text = kubelet.write(UID, "10.0.0.1 more\n");
  const seen: string[] = [];
  const change = (content: Buffer) => {
    seen.push(content.toString());
    if (seen.length === 1) kubelet.write(UID);
    return add(content);
  };
  assert.equal(codeOf(files, change), "written");
  assert.deepEqual(seen, [text, kubelet.write(UID)]);
  writeFileSync(path, text);
  assert.equal(codeOf(files), "written");
  assert.equal(readFileSync(path, "utf8"), text + LINE);
});

test("the update of an unchanged file returns the stamp of the file", (t) => {
  const { kubelet, files } = start(t);
  kubelet.write(UID);
  assert.deepEqual(
    files.update(UID, (content) => content),
    { kind: "current", stamp: files.stamp(UID) },
  );
});

test("if the change itself throws, the update is refused with that error", (t) => {
  const { kubelet, files, path } = start(t);
  const text = kubelet.write(UID);
  const outcome = files.update(UID, () => {
    throw new Error("cannot change this");
  });
  assert.deepEqual(outcome, {
    kind: "refused",
    reason: { code: "write-failed", text: "the hosts file cannot be written: cannot change this" },
  });
  assert.equal(readFileSync(path, "utf8"), text);
});

test("without a configured owner, only root's files are written", (t) => {
  const { kubelet } = start(t);
  kubelet.write(UID);
  const files = openHostsFiles(kubelet.pods);
  assert.equal(codeOf(files), OWNER === 0 ? "written" : "not-kubelets");
  files.close();
});

test("no outcome of an update leaves a descriptor open", (t) => {
  const { kubelet, path } = start(t);
  const open = () => readdirSync("/proc/self/fd").length;
  const before = open();
  const files = openHostsFiles(kubelet.pods, OWNER);
  const outcomes: string[] = [];
  const update = (uid = UID, change = add) => {
    outcomes.push(codeOf(files, change, uid));
    files.stamp(uid);
  };
  update("malformed");
  update();
  kubelet.write(UID);
  update();
  update(UID, (content) => content.subarray(0, -LINE.length));
  update(UID, (content) => content);
  update(UID, () => {
    throw new Error("cannot change this");
  });
  writeFileSync(path, "127.0.0.1 localhost\n");
  update();
  rmSync(path);
  mkdirSync(path);
  update();
  symlinkSync(kubelet.root, join(kubelet.pods, uidOf(2)));
  update(uidOf(2));
  files.close();
  assert.deepEqual(outcomes, [
    "path-not-plain",
    "absent",
    "written",
    "written",
    "current",
    "write-failed",
    "not-kubelets",
    "not-kubelets",
    "path-not-plain",
  ]);
  assert.throws(() => openHostsFiles(join(kubelet.root, "nowhere"), OWNER), { code: "ENOENT" });
  assert.equal(open(), before);
});
