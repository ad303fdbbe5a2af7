import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import {
  appendFileSync,
  linkSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { kubeletFiles, OWNER, uidOf } from "#test/fakes/kubelet-files.ts";
import { openHostsFiles } from "./hosts-files.ts";

const UID = uidOf(1);
const LINE = "198.51.100.9\ta.example.com\n";
const add = (content: Buffer) => Buffer.concat([content, Buffer.from(LINE)]);

function start(t: TestContext) {
  const kubelet = kubeletFiles(t);
  const files = openHostsFiles(kubelet.pods, OWNER);
  t.after(() => files.close());
  return { kubelet, files, path: kubelet.path(UID) };
}

/** Updates a file that must be refused without being read. Returns the code of the refusal. */
function refusedAs({ kubelet, files }: ReturnType<typeof start>, uid = UID): string {
  let called = false;
  const outcome = files.update(uid, (content) => {
    called = true;
    return add(content);
  });
  assert.equal(called, false, "the file is not read");
  assert.equal(outcome.kind, "refused", `${kubelet.pods} ${JSON.stringify(outcome)}`);
  return outcome.kind === "refused" ? outcome.reason.code : "";
}

test("the file is changed in place: the inode and every byte are kept, including bytes that are not UTF-8", (t) => {
  const { kubelet, files, path } = start(t);
  kubelet.write(UID);
  appendFileSync(path, Buffer.from([0xff, 0xfe, 0x0a]));
  const before = { content: readFileSync(path), inode: statSync(path).ino };
  const outcome = files.update(UID, add);
  assert.equal(outcome.kind, "written");
  assert.deepEqual(readFileSync(path), Buffer.concat([before.content, Buffer.from(LINE)]));
  assert.equal(statSync(path).ino, before.inode);
  assert.equal(outcome.kind === "written" && outcome.stamp, files.stamp(UID));
  assert.equal(files.update(UID, (content) => content).kind, "current");
});

test("the stamp changes with the file", (t) => {
  const { kubelet, files, path } = start(t);
  assert.equal(files.stamp(UID), undefined);
  kubelet.write(UID);
  const stamp = files.stamp(UID);
  appendFileSync(path, "x");
  assert.notEqual(files.stamp(UID), stamp);
});

test("a pod without a directory or a hosts file has no hosts file", (t) => {
  const { kubelet, files } = start(t);
  assert.equal(files.update(UID, add).kind, "absent");
  mkdirSync(join(kubelet.pods, UID));
  assert.equal(files.update(UID, add).kind, "absent");
});

test("a malformed uid never becomes part of a path", (t) => {
  const setup = start(t);
  setup.kubelet.write(UID);
  for (const uid of [
    "",
    ".",
    "..",
    `../pods/${UID}`,
    `${UID}/`,
    `${UID}\0`,
    UID.toUpperCase().replace("4", "G"),
    "static-pod",
  ])
    assert.equal(refusedAs(setup, uid), "path-not-plain", uid);
});

test("symbolic links are never followed", (t) => {
  const setup = start(t);
  const { kubelet, path } = setup;
  const elsewhere = join(kubelet.root, "elsewhere");
  mkdirSync(elsewhere);
  const target = join(elsewhere, "etc-hosts");
  const content = kubelet.write(UID);
  renameSync(path, target);
  symlinkSync(target, path);
  assert.equal(refusedAs(setup), "path-not-plain");
  rmSync(join(kubelet.pods, UID), { recursive: true });
  symlinkSync(elsewhere, join(kubelet.pods, UID));
  assert.equal(refusedAs(setup), "path-not-plain");
  assert.equal(readFileSync(target, "utf8"), content);
  // A link above the directory, then the directory itself.
  symlinkSync(kubelet.root, `${kubelet.root}-link`);
  t.after(() => unlinkSync(`${kubelet.root}-link`));
  assert.throws(() => openHostsFiles(`${kubelet.root}-link/pods`, OWNER), { code: "ENOTDIR" });
  renameSync(kubelet.pods, `${kubelet.pods}-moved`);
  symlinkSync(`${kubelet.pods}-moved`, kubelet.pods);
  assert.throws(() => openHostsFiles(kubelet.pods, OWNER), { code: "ENOTDIR" });
});

test("only a plain file of the kubelet is changed: no hard link, no other owner, no other type", (t) => {
  const setup = start(t);
  const { kubelet, path } = setup;
  const content = kubelet.write(UID);
  linkSync(path, join(kubelet.root, "second-name"));
  assert.equal(refusedAs(setup), "not-kubelets");
  assert.equal(readFileSync(path, "utf8"), content);
  unlinkSync(join(kubelet.root, "second-name"));
  const strangers = openHostsFiles(kubelet.pods, OWNER + 1);
  assert.equal(refusedAs({ ...setup, files: strangers }), "not-kubelets");
  strangers.close();
  unlinkSync(path);
  mkdirSync(path);
  assert.equal(refusedAs(setup), "not-kubelets");
  rmSync(path, { recursive: true });
  execFileSync("mkfifo", [path]);
  assert.equal(refusedAs(setup), "not-kubelets", "a pipe does not block");
});

test("content that is not the kubelet's is not changed; an empty file is reported as being written", (t) => {
  const setup = start(t);
  setup.kubelet.write(UID);
  writeFileSync(setup.path, "127.0.0.1 localhost\n");
  assert.equal(refusedAs(setup), "not-kubelets");
  assert.equal(readFileSync(setup.path, "utf8"), "127.0.0.1 localhost\n");
  truncateSync(setup.path);
  assert.equal(refusedAs(setup), "file-empty");
});

test("an oversized file is not read", (t) => {
  const setup = start(t);
  setup.kubelet.write(UID);
  truncateSync(setup.path, 5 * 1024 ** 3);
  assert.equal(refusedAs(setup), "file-too-large");
});

test("if the kubelet writes between our read and our write, its change is kept", (t) => {
  const { kubelet, files, path } = start(t);
  kubelet.write(UID);
  let reads = 0;
  const outcome = files.update(UID, (content) => {
    reads += 1;
    if (reads === 1) kubelet.write(UID, "10.32.0.8\tnew-address\n");
    return add(content);
  });
  assert.equal(outcome.kind, "written");
  assert.match(readFileSync(path, "utf8"), /10\.32\.0\.8\tnew-address\n198\.51\.100\.9\ta\.example\.com\n$/);
});

test("a file that keeps changing is skipped until the next update", (t) => {
  const { kubelet, files, path } = start(t);
  kubelet.write(UID);
  const outcome = files.update(UID, (content) => {
    appendFileSync(path, "10.0.0.2 busy\n");
    return add(content);
  });
  assert.equal(outcome.kind === "refused" && outcome.reason.code, "file-busy");
  assert.doesNotMatch(readFileSync(path, "utf8"), /a\.example\.com/);
});

test("a pod may be deleted while its file is being changed", (t) => {
  const { kubelet, files } = start(t);
  kubelet.write(UID);
  const outcome = files.update(UID, (content) => {
    rmSync(join(kubelet.pods, UID), { recursive: true });
    return add(content);
  });
  assert.ok(["written", "absent"].includes(outcome.kind), outcome.kind);
  assert.equal(files.update(UID, add).kind, "absent");
});

test("on a full disk the file keeps its content, and the error is reported", (t) => {
  const { kubelet, path } = start(t);
  const content = kubelet.write(UID, `${"# filler\n".repeat(100)}`);
  // A limit on the file size simulates the full disk: the kernel writes what fits, then fails.
  const script = `
    const { openHostsFiles } = await import(${JSON.stringify(join(import.meta.dirname, "hosts-files.ts"))});
    const files = openHostsFiles(${JSON.stringify(kubelet.pods)}, ${OWNER});
    const more = Buffer.from("198.51.100.9\\ta.example.com\\n".repeat(100));
      process.stdout.write(JSON.stringify(files.update("${UID}", (content) => Buffer.concat([content, more]))));
  `;
  const limited = [
    "-c",
    'trap "" XFSZ; ulimit -f 2; exec "$@"',
    "bash",
    process.execPath,
    "--input-type=module",
    "-e",
    script,
  ];
  const { stdout, stderr } = spawnSync("bash", limited, { encoding: "utf8" });
  assert.match(stdout, /"kind":"refused"/, stderr);
  assert.match(stdout, /"code":"write-failed".*EFBIG/);
  assert.equal(readFileSync(path, "utf8"), content);
});
