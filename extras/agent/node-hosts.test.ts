import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import {
  appendFileSync,
  chownSync,
  linkSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { createSelector } from "#hostmap/pod-selection.ts";
import { protectNames } from "#hostmap/protected-names.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { LineLog } from "#test/fakes/clock.ts";
import { hasName, OWNER } from "#test/fakes/kubelet-files.ts";
import { NodeHosts } from "./node-hosts.ts";
import { mountedFrom, openNodeHostsFile } from "./node-hosts-file.ts";

const FRONT = "198.51.100.9";
const TEXT = "127.0.0.1 localhost\n::1 ip6-localhost # é\n";

function mapOf(...names: string[]) {
  return publishedMapOf(names.join(), new Map(names.map((name) => [name, [FRONT]])));
}

const isTaken = ({ fields }: { fields: object }) => "code" in fields && fields.code === "node-hosts-taken";

/** A node's hosts file in its own folder, and the object that keeps it current. */
function start(t: TestContext, names: readonly string[] = ["*.example.com"], maxNames = 500) {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "switchback-node-")));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, "hosts");
  writeFileSync(path, TEXT);
  const mounts = { text: "" };
  const file = openNodeHostsFile(path, OWNER, undefined, () => mounts.text);
  t.after(() => file.close());
  const log = new LineLog();
  const hosts = new NodeHosts({ file, names, maxNames, protect: protectNames("k8s.corp.example"), log });
  const text = () => readFileSync(path, "latin1");
  return { folder, path, mounts, hosts, log, text, before: text() };
}

test("the chosen names are in a block, every other byte stays, and the block is removed without a trace", (t) => {
  const { hosts, path, text, before } = start(t, ["registry.example.com", "*.internal.example.com"]);
  const inode = statSync(path).ino;
  const map = mapOf("registry.example.com", "a.internal.example.com", "shop.example.com");
  hosts.setMap(map);
  hosts.reconcile(true);
  assert.ok(text().startsWith(before));
  const found = map.hosts.map(({ name }) => [name, hasName(text(), name)]);
  assert.deepEqual(Object.fromEntries(found), {
    "registry.example.com": true,
    "a.internal.example.com": true,
    "shop.example.com": false,
  });
  assert.deepEqual(hosts.report, {
    revision: createSelector(map, 500)("registry.example.com,*.internal.example.com").revision,
    names: 2,
    taken: [],
    problem: undefined,
  });
  assert.equal(hosts.isClean, false);
  hosts.reconcile(false);
  assert.deepEqual([text(), statSync(path).ino, hosts.isClean], [before, inode, true]);
  assert.deepEqual([hosts.report.revision, hosts.report.names], [undefined, 0]);
});

test("while there is no map, the file keeps what was last written", (t) => {
  const { hosts, text } = start(t);
  hosts.setMap(mapOf("a.example.com"));
  hosts.reconcile(true);
  const written = text();
  hosts.setMap(undefined);
  hosts.reconcile(true);
  assert.equal(text(), written);
  assert.equal(hosts.isClean, false);
  hosts.setMap(mapOf());
  hosts.reconcile(true);
  assert.doesNotMatch(text(), /switchback/);
});

test("a name that is in a user's line anywhere in the file is left out until that line is gone", (t) => {
  const { hosts, log, path, text } = start(t);
  hosts.setMap(mapOf("a.example.com", "b.example.com", "c.example.com"));
  hosts.reconcile(true);
  writeFileSync(path, `10.0.0.1 A.example.com\n${text()}10.0.0.2 x b.example.com\n`);
  hosts.reconcile(true);
  assert.deepEqual([hosts.report.names, hosts.report.taken], [1, ["a.example.com", "b.example.com"]]);
  assert.doesNotMatch(text(), new RegExp(`${FRONT}.*[ab]\\.example\\.com`));
  assert.match(text(), /^10\.0\.0\.1 A\.example\.com\n/);
  assert.match(text(), /^10\.0\.0\.2 x b\.example\.com$/m);
  const lines = log.lines.filter(isTaken);
  assert.equal(lines.length, 1);
  writeFileSync(path, text().replace("10.0.0.2 x b.example.com\n", ""));
  hosts.reconcile(true);
  assert.deepEqual([hosts.report.names, hosts.report.taken], [2, ["a.example.com"]]);
  hosts.reconcile(true);
  assert.equal(log.lines.filter(isTaken).length, 2, "once each");
});

test("a file without a final newline has none again when the block is gone", (t) => {
  const { hosts, path, text } = start(t);
  writeFileSync(path, "127.0.0.1 localhost");
  hosts.setMap(mapOf("a.example.com"));
  hosts.reconcile(true);
  assert.ok(hasName(text(), "a.example.com") && hasName(text(), "localhost"));
  hosts.reconcile(false);
  assert.equal(text(), "127.0.0.1 localhost");
});

test("a line that an admin adds stays, and a block that was removed by hand comes back", (t) => {
  const { hosts, path, text, before } = start(t);
  hosts.setMap(mapOf("a.example.com"));
  hosts.reconcile(true);
  appendFileSync(path, "10.0.0.3 admin\n");
  hosts.reconcile(true);
  assert.match(text(), /10\.0\.0\.3 admin\n$/);
  writeFileSync(path, before);
  hosts.reconcile(true);
  assert.ok(hasName(text(), "a.example.com"));
});

test("the file is not read while nothing has changed", (t) => {
  const { hosts, path } = start(t);
  hosts.setMap(mapOf("a.example.com"));
  hosts.reconcile(true);
  const past = new Date(1_000_000);
  utimesSync(path, past, past);
  hosts.reconcile(true);
  const read = statSync(path).atimeMs;
  hosts.setMap(mapOf("a.example.com", "unrelated.example.org"));
  hosts.reconcile(true);
  assert.equal(statSync(path).atimeMs, read);
});

/** Code of the reason why the file is refused now. */
function refused({ hosts }: ReturnType<typeof start>): string | undefined {
  hosts.setMap(mapOf("a.example.com"));
  hosts.reconcile(true);
  assert.deepEqual([hosts.report.names, hosts.isClean], [0, false]);
  return hosts.report.problem?.code;
}

test("a link, a pipe, a second name and a missing file are refused, and nothing is written", (t) => {
  const rig = start(t);
  const { folder, path } = rig;
  const target = join(folder, "target");
  renameSync(path, target);
  symlinkSync(target, path);
  assert.equal(refused(rig), "path-not-plain");
  unlinkSync(path);
  execFileSync("mkfifo", [path]);
  assert.equal(refused(rig), "node-hosts-not-plain", "a pipe does not block");
  unlinkSync(path);
  linkSync(target, path);
  assert.equal(refused(rig), "node-hosts-not-plain");
  assert.equal(readFileSync(target, "utf8"), TEXT);
  unlinkSync(path);
  assert.equal(refused(rig), "node-hosts-absent");
  assert.equal(rig.log.lines.filter(({ level }) => level === "warn").length, 3, "each problem once in a row");
});

test("a file of another owner is refused", (t) => {
  const rig = start(t);
  if (OWNER !== 0) return t.skip("needs root");
  chownSync(rig.path, 1, 1);
  assert.equal(refused(rig), "node-hosts-not-plain");
  assert.equal(rig.text(), rig.before);
});

test("a file over the limits is not read, and a file with too many lines is not changed", (t) => {
  const rig = start(t);
  truncateSync(rig.path, 5 * 1024 ** 3);
  assert.equal(refused(rig), "file-too-large");
  writeFileSync(rig.path, "a\n".repeat(10_000));
  assert.equal(refused(rig), "file-too-large");
  writeFileSync(rig.path, TEXT);
  rig.hosts.reconcile(true);
  assert.deepEqual([rig.hosts.report.problem, rig.hosts.report.names], [undefined, 1]);
});

test("a file that was just emptied is left to its editor; a file that stays empty is written", (t) => {
  const rig = start(t);
  writeFileSync(rig.path, "");
  assert.equal(refused(rig), "file-empty");
  const past = new Date(Date.now() - 60_000);
  utimesSync(rig.path, past, past);
  rig.hosts.reconcile(true);
  assert.ok(hasName(rig.text(), "a.example.com"));
});

test("a file that was replaced by rename is not written any more, and does not count as clean", (t) => {
  const rig = start(t);
  const { path, mounts, hosts } = rig;
  const line = (root: string) => `36 35 98:0 ${root} ${path} rw shared:1 - ext4 /dev/sda1 rw\n`;
  mounts.text = line("/etc/hosts");
  const file = openNodeHostsFile(path, OWNER, undefined, () => mounts.text);
  t.after(() => file.close());
  const mounted = new NodeHosts({ file, names: ["*"], maxNames: 500, protect: () => undefined, log: rig.log });
  mounted.setMap(mapOf("a.example.com"));
  mounted.reconcile(true);
  assert.equal(mounted.isReplaced, false);
  for (const root of ["/etc/hosts//deleted", "/etc/hosts~"]) {
    const written = rig.text();
    mounts.text = line(root);
    mounted.setMap(mapOf("b.example.com"));
    mounted.reconcile(true);
    assert.deepEqual([mounted.report.problem?.code, rig.text()], ["node-hosts-replaced", written], root);
    mounted.reconcile(false);
    assert.deepEqual([mounted.isReplaced, mounted.isClean, rig.text()], [true, false, written], root);
    mounts.text = line("/etc/hosts");
    mounted.reconcile(true);
    assert.equal(mounted.isReplaced, false);
  }
  assert.equal(hosts.isReplaced, false);
});

test("the node gets at most as many names as a pod, those published first, and the report says so", (t) => {
  const { hosts, text } = start(t, ["*"], 2);
  hosts.setMap(mapOf("a.example.com", "b.example.com", "c.example.com"));
  hosts.reconcile(true);
  assert.deepEqual([hosts.report.names, hosts.report.problem?.code], [2, "many-names"]);
  assert.equal(hasName(text(), "c.example.com"), false);
});

test("names of the cluster are not written, even if the map has them and they are chosen", (t) => {
  const { hosts, text } = start(t, ["*"]);
  hosts.setMap(mapOf("a.example.com", "kubernetes.default.svc.k8s.corp.example", "web.shop.svc"));
  hosts.reconcile(true);
  assert.ok(hasName(text(), "a.example.com") && !text().includes("svc"), text());
  assert.deepEqual([hosts.report.names, hosts.report.problem?.code], [1, "name-protected"]);
  assert.match(hosts.report.problem?.text ?? "", /^2 names are left out: /);
});

test("the file that is mounted at a path is that of the last mount there", () => {
  const mounts =
    "1 0 8:1 / / rw - ext4 a rw\n2 1 8:1 /old /n/hosts rw - ext4 a rw\n3 1 8:1 /etc/hosts /n/hosts rw - ext4 a rw\n";
  assert.equal(mountedFrom(mounts, "/n/hosts"), "/etc/hosts");
  assert.equal(mountedFrom(mounts, "/n"), undefined);
});
