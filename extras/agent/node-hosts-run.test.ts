import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, realpathSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { hasName, kubeletFiles, kubeletText, uidOf } from "#test/fakes/kubelet-files.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { settled, stopTime } from "#test/fakes/stopped-time.ts";
import { AGENT_SECTIONS } from "./config.ts";
import { openNodeHostsFile } from "./node-hosts-file.ts";
import { runNodeHosts } from "./node-hosts-run.ts";
import { type RunningAgent, runAgent } from "./run.ts";

const AGENTS = "/namespaces/switchback-agent";
const LEASE = `/apis/coordination.k8s.io/v1${AGENTS}/leases/switchback-agent-node-1`;
const DAEMON_SET = `/apis/apps/v1${AGENTS}/daemonsets/switchback-agent`;
const ON = { "switchback.dev/node-hosts": "true" };
const LEAVING = { "switchback.dev/leaving": "true" };
const TEXT = "127.0.0.1 localhost\n";
const MAP = publishedMapOf("r1", new Map(["a", "b"].map((name) => [`${name}.example.com`, ["198.51.100.9"]])));
/** Within this time, the DaemonSet is read and every file is checked. */
const LONG_MS = 31_000;

/** A node's hosts file in its own folder. */
function nodeFile(t: TestContext) {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "switchback-node-")));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, "hosts");
  writeFileSync(path, TEXT);
  return { path, text: () => readFileSync(path, "latin1") };
}

async function soon<T>(promise: Promise<T>): Promise<T> {
  let done = false;
  const note = () => {
    done = true;
  };
  promise.then(note, note);
  for (let turn = 0; !done && turn < 50_000; turn += 1) await new Promise(setImmediate);
  return await promise;
}

/** The agent of node-1 with real files, on a cluster in memory; time passes only in `pass`. */
async function rig(t: TestContext, nodeHosts: object, annotations: object = ON) {
  const pass = stopTime(t, 50);
  const kubelet = kubeletFiles(t);
  const node = nodeFile(t);
  const kube = new MemoryKube();
  kube.put(DAEMON_SET, { metadata: { annotations } });
  const config = parseConfig(
    {
      address: "127.0.0.1",
      agent: { kubeletRoot: kubelet.root, healthPort: 0 },
      nodeHosts,
    },
    AGENT_SECTIONS,
  );
  const maps = {
    start(found: (map: typeof MAP) => void) {
      setImmediate(found, MAP);
      return { stop: async () => {} };
    },
  };
  const at = { node: "node-1", nodeHostsPath: node.path };
  const deps = { client: kube.client, maps, log: silentLogger, identity: "agent-1", now: Date.now, ...at };
  const agent: RunningAgent = await soon(runAgent(config, deps));
  let stopped: Promise<void> | undefined;
  const stop = () => {
    stopped ??= agent.stop();
    return soon(stopped);
  };
  t.after(stop);
  await settled();
  await pass(LONG_MS);
  return {
    kube,
    kubelet,
    node,
    pass,
    stop,
    annotate: (next: object) => kube.put(DAEMON_SET, { metadata: { annotations: next } }),
    lease: () => kube.at(LEASE)?.metadata,
    hosts: (uid: number) => readFileSync(kubelet.path(uidOf(uid)), "latin1"),
    /** Adds a pod on the host's network. The kubelet copied its file from the node's. */
    hostPod(index: number, more: object = {}) {
      kubelet.write(uidOf(index), node.text().replace(TEXT, ""));
      const spec = { nodeName: "node-1", hostNetwork: true };
      kube.put(`/api/v1/namespaces/shop/pods/pod-${index}`, { metadata: { uid: uidOf(index), ...more }, spec });
    },
  };
}

test("without any pod, the node gets its names, the Lease reports it, and an uninstall removes both", async (t) => {
  const { node, lease, annotate, pass } = await rig(t, { names: ["a.example.com"] });
  assert.deepEqual([hasName(node.text(), "a.example.com"), hasName(node.text(), "b.example.com")], [true, false]);
  assert.match(lease()?.annotations?.["switchback.dev/node-hosts"] ?? "", /"names":1,"taken":\[\]/);
  annotate({ ...ON, ...LEAVING });
  await pass(LONG_MS);
  assert.deepEqual([node.text(), lease()], [TEXT, undefined]);
});

test("while a file cannot be cleared, the Lease stays, so that the uninstall sees it", async (t) => {
  const { node, lease, annotate, pass } = await rig(t, { names: ["*"] });
  renameSync(node.path, `${node.path}-moved`);
  writeFileSync(node.path, "x\n".repeat(10_000));
  annotate({ ...ON, ...LEAVING });
  await pass(LONG_MS);
  assert.ok(lease());
  writeFileSync(node.path, TEXT);
  await pass(LONG_MS);
  assert.equal(lease(), undefined);
});

test("names are removed from the node when the DaemonSet loses its annotation", async (t) => {
  const rolled = await rig(t, { names: ["*"] });
  assert.ok(hasName(rolled.node.text(), "a.example.com"));
  rolled.annotate({});
  await rolled.pass(LONG_MS);
  assert.equal(rolled.node.text(), TEXT);
  assert.equal(rolled.lease()?.annotations?.["switchback.dev/node-hosts"], undefined);
});

test("withdrawn names are removed from the node even if the agent is replaced before it has noticed", async (t) => {
  const stopped = await rig(t, { names: ["*"] });
  assert.ok(hasName(stopped.node.text(), "a.example.com"));
  stopped.annotate({});
  await stopped.stop();
  assert.equal(stopped.node.text(), TEXT);
});

test("an agent that is replaced by one with the same configuration changes nothing", async (t) => {
  const { node, stop } = await rig(t, { names: ["*"] });
  const written = node.text();
  assert.notEqual(written, TEXT);
  await stop();
  assert.equal(node.text(), written);
});

const LEFT = `${TEXT}# BEGIN switchback.dev: names of this cluster, kept current while the pod runs
198.51.100.9\ta.example.com\t# switchback.dev
# END switchback.dev
`;

for (const [what, nodeHosts, text] of [
  ["without names the file is not looked at", {}, LEFT],
  ["with `remove` a block that was left behind goes", { remove: true }, TEXT],
] as const) {
  test(what, async (t) => {
    const { node, pass } = await rig(t, nodeHosts, {});
    writeFileSync(node.path, LEFT);
    await pass(LONG_MS);
    assert.equal(node.text(), text);
  });
}

test("on the host's network, a pod's copy stays current until the names go; without a copy it gets none", async (t) => {
  const { kube, hosts, hostPod, node, kubelet, annotate, pass } = await rig(t, { names: ["a.example.com"] });
  hostPod(1);
  kubelet.write(uidOf(2));
  kube.put("/api/v1/namespaces/shop/pods/pod-2", {
    metadata: { uid: uidOf(2) },
    spec: { nodeName: "node-1", hostNetwork: true },
  });
  const old = node.text().replaceAll("198.51.100.9", "198.51.100.7").replace(TEXT, "");
  kubelet.write(uidOf(3), old);
  kube.put("/api/v1/namespaces/shop/pods/pod-3", {
    metadata: { uid: uidOf(3) },
    spec: { nodeName: "node-1", hostNetwork: true },
  });
  await pass(LONG_MS);
  assert.ok(hasName(hosts(1), "a.example.com"));
  assert.equal(hosts(2), kubeletText());
  assert.match(hosts(3), /198\.51\.100\.9\ta\.example\.com/);
  assert.doesNotMatch(hosts(3), /198\.51\.100\.7/);
  annotate({});
  await pass(LONG_MS);
  assert.deepEqual([hosts(1), hosts(2), hosts(3)], [kubeletText(), kubeletText(), kubeletText()]);
});

test("a replaced file restarts the container: after the kubelet's back-off, or at once if the block must go", (t) => {
  const node = nodeFile(t);
  const state = { now: 0, mounted: "/etc/hosts" };
  const daemonSet = { uninstalling: false, nodeHosts: true };
  const config = parseConfig({ nodeHosts: { names: ["*"] } }, AGENT_SECTIONS);
  const mounts = () => `36 35 98:0 ${state.mounted} ${node.path} rw - ext4 /dev/sda1 rw\n`;
  const open: typeof openNodeHostsFile = (path, owner, limits) => openNodeHostsFile(path, owner, limits, mounts);
  const hosts = runNodeHosts(config, daemonSet, silentLogger, { now: () => state.now, open, path: node.path });
  t.after(() => hosts.close());
  hosts.setMap(MAP);
  hosts.reconcile();
  assert.equal(hosts.restart(), undefined);
  state.mounted = "/etc/hosts//deleted";
  hosts.reconcile();
  state.now = 10 * 60_000 - 1;
  assert.equal(hosts.restart(), undefined);
  state.now += 1;
  assert.equal(hosts.restart()?.ok, false);
  state.now = 0;
  daemonSet.uninstalling = true;
  hosts.reconcile();
  assert.deepEqual([hosts.restart()?.ok, hosts.isClean], [false, false]);
});
