import assert from "node:assert/strict";
import { mkdirSync, rmdirSync, rmSync, watch, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { LineLog } from "#test/fakes/clock.ts";
import { kubeletFiles } from "#test/fakes/kubelet-files.ts";
import { watchDirectories } from "./directory-watches.ts";

function start(t: TestContext) {
  const { root, pods } = kubeletFiles(t);
  const log = new LineLog();
  const touched: string[] = [];
  const watches = watchDirectories(pods, (uid) => touched.push(uid), log);
  t.after(() => watches.close());
  const write = (uid: string, name: string) => writeFileSync(join(pods, uid, name), "");
  /** Resolves when the kernel has delivered all events until now. The kernel keeps their order. */
  const delivered = async (directory: string) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const last = watch(directory, (_event, name) => {
      if (name === "last") resolve();
    });
    writeFileSync(join(directory, "last"), "");
    await promise;
    last.close();
  };
  return { pods, root, log, watches, touched, write, delivered };
}

test("a new pod directory and a changed hosts file are reported, other files are not", async (t) => {
  const { pods, watches, touched, write, delivered, log } = start(t);
  for (const uid of ["u1", "u2"]) mkdirSync(join(pods, uid));
  await delivered(pods);
  assert.deepEqual(touched.slice(0, 2), ["u1", "u2"]);
  touched.length = 0;
  watches.add("u1");
  watches.add("u1");
  write("u1", "other");
  write("u1", "etc-hosts");
  write("u2", "etc-hosts");
  await delivered(join(pods, "u1"));
  assert.ok(touched.length > 0);
  assert.deepEqual(new Set(touched), new Set(["u1"]));
  const calls = touched.length;
  rmSync(join(pods, "u1", "etc-hosts"));
  await delivered(join(pods, "u1"));
  assert.deepEqual(touched.slice(calls), ["u1"], "added twice, watched once");
  assert.deepEqual(log.lines, []);
});

test("a removed directory is not watched until it is added again", async (t) => {
  const { pods, watches, touched, write, delivered } = start(t);
  mkdirSync(join(pods, "u1"));
  await delivered(pods);
  watches.remove("u1");
  watches.add("u1");
  watches.remove("u1");
  touched.length = 0;
  write("u1", "etc-hosts");
  await delivered(join(pods, "u1"));
  assert.deepEqual(touched, []);
  watches.add("u1");
  write("u1", "etc-hosts");
  await delivered(join(pods, "u1"));
  assert.deepEqual(new Set(touched), new Set(["u1"]));
});

test("a missing directory is not logged, and is watched when it is added again later", async (t) => {
  const { pods, watches, touched, write, delivered, log } = start(t);
  watches.add("u1");
  mkdirSync(join(pods, "u1"));
  await delivered(pods);
  touched.length = 0;
  watches.add("u1");
  write("u1", "etc-hosts");
  await delivered(join(pods, "u1"));
  assert.deepEqual(new Set(touched), new Set(["u1"]));
  assert.deepEqual(log.lines, []);
});

test("directories that cannot be watched are logged once, until one can be watched", (t) => {
  const { pods, watches, log } = start(t);
  writeFileSync(join(pods, "file"), "");
  mkdirSync(join(pods, "u1"));
  for (const uid of ["file/u2", "file/u3", "u1", "file/u4"]) watches.add(uid);
  assert.deepEqual(
    log.lines.map(({ fields }) => (fields as { path: string }).path),
    [join(pods, "file/u2"), join(pods, "file/u4")],
  );
});

test("after close, nothing is reported", async (t) => {
  const { pods, watches, touched, write, delivered } = start(t);
  mkdirSync(join(pods, "u1"));
  await delivered(pods);
  watches.add("u1");
  watches.close();
  touched.length = 0;
  mkdirSync(join(pods, "u2"));
  write("u1", "etc-hosts");
  await delivered(join(pods, "u1"));
  await delivered(pods);
  assert.deepEqual(touched, []);
});

test("directories that cannot be watched are logged again after one could be watched", (t) => {
  const { pods, watches, log } = start(t);
  const refused = () => {
    rmdirSync(pods);
    writeFileSync(pods, "");
    for (const uid of ["u1", "u2"]) watches.add(uid);
    rmSync(pods);
    mkdirSync(pods);
  };
  refused();
  mkdirSync(join(pods, "u3"));
  watches.add("u3");
  rmdirSync(join(pods, "u3"));
  refused();
  assert.deepEqual(
    log.lines.map(({ level, fields }) => [level, "path" in fields && fields.path]),
    [
      ["warn", join(pods, "u1")],
      ["warn", join(pods, "u1")],
    ],
  );
  assert.match(JSON.stringify(log.lines[0]?.fields), /ENOTDIR/);
});
