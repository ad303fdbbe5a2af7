import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { NODE } from "#test/cluster/kubelet.ts";
import { aliasesText, hasName, kubeletFiles } from "#test/fakes/kubelet-files.ts";
import { ingress, namespaceYaml, podObject } from "#test/integration/objects.ts";
import { AGENTS, type System, startSystem, sumOf, until } from "#test/integration/system.ts";
import type { Replica } from "#test/integration/system-options.ts";
import { agentLease } from "./agents.ts";

// The agent against a real API server, with the rights and the configuration from the chart. There is no kubelet: the
// test writes the hosts files, in its own directory.

const cleanups: Array<() => void> = [];
const kubelet = kubeletFiles({ after: (done) => cleanups.push(done as () => void) });
let system: System;
let agent: Replica;

before(async () => {
  system = await startSystem({
    values: {
      agent: { enabled: true },
      config: { map: { vanishSeconds: 0 } },
    },
  });
  agent = await system.startAgent(kubelet.root);
  await system.apply(namespaceYaml("shop", "enabled") + namespaceYaml("other"));
  await system.kubectl("annotate", "namespace", "shop", "switchback.dev/on-change=live");
});
after(async () => {
  await system?.stop();
  for (const done of cleanups) done();
});

async function metric(name: string): Promise<number> {
  return sumOf((await agent.page("/metrics")).text, `switchback_agent_${name}`);
}

/** Creates a pod on our node. It has a hosts file, as if its container ran. */
async function runPod(namespace: string, name: string, more: object = {}, metadata: object = {}): Promise<string> {
  const pod = podObject(namespace, name) as { metadata: object; spec: object };
  const object = { ...pod, metadata: { ...pod.metadata, ...metadata }, spec: { ...pod.spec, nodeName: NODE, ...more } };
  await system.apply(JSON.stringify(object));
  const { metadata: made, spec } = await system.json<{
    metadata: { uid: string };
    spec: { hostAliases?: Array<{ ip: string; hostnames: string[] }> };
  }>("-n", namespace, "get", "pod", name);
  kubelet.write(made.uid, aliasesText(spec.hostAliases));
  return made.uid;
}

const hosts = (uid: string) => readFileSync(kubelet.path(uid), "latin1");
const has = (uid: string, name: string) => hasName(hosts(uid), name);
const until_ = (uid: string, name: string) => until(`${name} in the file`, () => has(uid, name), 10_000);
const gone = (uid: string, name: string) => until(`${name} to leave the file`, () => !has(uid, name));

const lease = () => agentLease(system);

describe("a running pod", () => {
  it("that opted in gets the name of a new Ingress, and the Lease reports it", async () => {
    const uid = await runPod("shop", "runs");
    await system.apply(ingress("first", ["first.example.com"], { namespace: "other" }));
    await until_(uid, "first.example.com");
    const revision = async () => (await system.map()).revision;
    await until(
      "the Lease to follow",
      async () => (await lease()).metadata.annotations?.["switchback.dev/revision"] === (await revision()),
    );
    const { metadata, spec } = await lease();
    assert.match(spec.holderIdentity, /^switchback-agent-\d+$/);
    assert.deepEqual(
      metadata.ownerReferences?.map(({ kind }) => kind),
      ["DaemonSet"],
    );
    assert.equal(await metric("pods"), 1);
  });

  it("loses a name that leaves the map, also if its spec has the name", async () => {
    const uid = await runPod("shop", "injected");
    assert.ok(has(uid, "first.example.com"), "injected by the webhook");
    await system.apply(ingress("second", ["second.example.com"], { namespace: "other" }));
    await until_(uid, "second.example.com");
    await system.kubectl("-n", "other", "delete", "ingress", "first", "second");
    await gone(uid, "second.example.com");
    await gone(uid, "first.example.com");
    await system.apply(ingress("first", ["first.example.com"], { namespace: "other" }));
    await until_(uid, "first.example.com");
    assert.doesNotMatch(hosts(uid), /BEGIN switchback/, "its own line again, no block");
  });

  it("whose container restarts gets its block again", async () => {
    await system.apply(ingress("third", ["third.example.com"], { namespace: "other" }));
    const uid = await runPod("shop", "restarts", {
      hostAliases: [{ ip: "10.0.0.1", hostnames: ["first.example.com"] }],
    });
    await system.apply(ingress("fourth", ["fourth.example.com"], { namespace: "other" }));
    await until_(uid, "fourth.example.com");
    kubelet.write(uid, "10.0.0.1\tfirst.example.com\n");
    await until_(uid, "fourth.example.com");
    assert.match(hosts(uid), /^10\.0\.0\.1\tfirst\.example\.com$/m);
    assert.equal(hosts(uid).match(/first\.example\.com/g)?.length, 1, "the user's alias wins");
  });

  it("that did not opt in, or does not follow live, is left alone", async () => {
    const own = { annotations: { "switchback.dev/on-change": "none" } };
    const uids = [
      await runPod("other", "stranger"),
      await runPod("shop", "none", {}, own),
      await runPod("shop", "off", {}, { labels: { "switchback.dev/inject": "disabled" } }),
    ];
    const before = uids.map(hosts);
    const control = await runPod("shop", "control");
    await system.apply(ingress("fifth", ["fifth.example.com"], { namespace: "other" }));
    await until_(control, "fifth.example.com");
    assert.deepEqual(uids.map(hosts), before);
  });

  it("follows as its Deployment's annotation says, which overrides its namespace's", async () => {
    const template = (name: string) => ({
      metadata: { labels: { app: name } },
      spec: { containers: [{ name: "c", image: "example.com/c:1" }], nodeSelector: { none: "such" } },
    });
    const deployment = (name: string, word: string) => ({
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { name, namespace: "shop", annotations: { "switchback.dev/on-change": word } },
      spec: { replicas: 1, selector: { matchLabels: { app: name } }, template: template(name) },
    });
    await system.apply(JSON.stringify(deployment("stays", "none")));
    interface Set {
      metadata: { name: string; uid: string; labels: Record<string, string> };
    }
    let set: Set | undefined;
    await until("a ReplicaSet", async () => {
      set = (await system.json<{ items: Set[] }>("-n", "shop", "get", "rs", "-l", "app=stays")).items[0];
      return set !== undefined;
    });
    const ownerReferences = [
      { apiVersion: "apps/v1", kind: "ReplicaSet", name: set?.metadata.name, uid: set?.metadata.uid, controller: true },
    ];
    const uid = await runPod("shop", "stays-1", {}, { ownerReferences, labels: set?.metadata.labels });
    const control = await runPod("shop", "control-2");
    await system.apply(ingress("sixth", ["sixth.example.com"], { namespace: "other" }));
    await until_(control, "sixth.example.com");
    assert.equal(has(uid, "sixth.example.com"), false);
  });

  it("that opts out has its file as the kubelet made it", async () => {
    const uid = await runPod("shop", "opts-out");
    const made = hosts(uid);
    await system.apply(ingress("seventh", ["seventh.example.com"], { namespace: "other" }));
    await until_(uid, "seventh.example.com");
    await system.kubectl("-n", "shop", "label", "pod", "opts-out", "switchback.dev/inject=disabled");
    await gone(uid, "seventh.example.com");
    assert.equal(hosts(uid), made);
  });

  it("with forged annotations of ours gets its names, and no foreign line is removed", async () => {
    await system.apply(namespaceYaml("forger"));
    const forged = {
      labels: { "switchback.dev/inject": "enabled" },
      annotations: { "switchback.dev/on-change": "live" },
    };
    await runPod("forger", "honest", {}, forged);
    const annotations = {
      ...forged.annotations,
      "switchback.dev/owned": "10.0.0.9 x1 (0123456789ab)",
      "switchback.dev/revision": "0123456789ab",
    };
    const aliases = { hostAliases: [{ ip: "10.0.0.9", hostnames: ["mine.example.org"] }] };
    const uid = await runPod("forger", "forged", aliases, { ...forged, annotations });
    await system.kubectl(
      "-n",
      "forger",
      "annotate",
      "--overwrite",
      "pod",
      "forged",
      "switchback.dev/owned=10.0.0.9 x1 (0123456789ab)",
    );
    await system.apply(ingress("eighth", ["eighth.example.com"], { namespace: "other" }));
    await until_(uid, "eighth.example.com");
    assert.match(hosts(uid), /^10\.0\.0\.9\tmine\.example\.org$/m);
  });
});

describe("a file that is not the kubelet's", () => {
  it("stays as it is, and the Lease keeps its revision and names the pod", async () => {
    const uid = await runPod("shop", "foreign");
    const told = async () => (await lease()).metadata.annotations?.["switchback.dev/revision"];
    // Writes of the Lease are paced, so wait until it has caught up with earlier changes.
    await until("the Lease to have caught up", async () => (await told()) === (await system.map()).revision);
    writeFileSync(kubelet.path(uid), "127.0.0.1 localhost\n");
    const before = await told();
    await system.apply(ingress("ninth", ["ninth.example.com"], { namespace: "other" }));
    await until(
      "the Lease to name it",
      async () => (await lease()).metadata.annotations?.["switchback.dev/problem"] === "shop/foreign: not-kubelets",
    );
    assert.equal(await told(), before);
    assert.equal(hosts(uid), "127.0.0.1 localhost\n");
    await system.kubectl("-n", "shop", "delete", "pod", "foreign", "--force", "--grace-period=0");
    await until("the Lease to go on", async () => {
      const { annotations } = (await lease()).metadata;
      return (
        annotations?.["switchback.dev/problem"] === undefined &&
        annotations?.["switchback.dev/revision"] === (await system.map()).revision
      );
    });
  });
});

describe("an agent that ends", () => {
  it("leaves everything as it is, and the next agent has nothing to write", async () => {
    const uid = await runPod("shop", "upgrade");
    await system.apply(ingress("tenth", ["tenth.example.com"], { namespace: "other" }));
    await until_(uid, "tenth.example.com");
    const before = hosts(uid);
    await agent.process.stop();
    assert.equal(hosts(uid), before);
    agent = await system.startAgent(kubelet.root);
    await until("it to follow", async () => (await metric("in_step")) === 1);
    assert.equal(await metric("writes_total"), 0);
  });

  it("starts again after a kill and repairs a file that is only half written", async () => {
    const uid = await runPod("shop", "killed");
    await system.apply(ingress("eleventh", ["eleventh.example.com"], { namespace: "other" }));
    await until_(uid, "eleventh.example.com");
    const whole = hosts(uid);
    await agent.process.stop();
    writeFileSync(kubelet.path(uid), whole.slice(0, -30), "latin1");
    agent = await system.startAgent(kubelet.root);
    await until("the file to be whole", () => hosts(uid) === whole, 10_000);
  });
});

describe("an API server that is away", () => {
  it("changes nothing; afterwards the agent catches up", async () => {
    const uid = await runPod("shop", "patient");
    await system.apply(ingress("twelfth", ["twelfth.example.com"], { namespace: "other" }));
    await until_(uid, "twelfth.example.com");
    const before = hosts(uid);
    await system.cluster.stopApiServer("SIGKILL");
    await new Promise((resolve) => setTimeout(resolve, 5_000));
    assert.equal(hosts(uid), before);
    kubelet.write(uid);
    await until("the block to be back without any API server", () => has(uid, "twelfth.example.com"), 10_000);
    await system.cluster.startApiServer();
    await system.apply(ingress("thirteenth", ["thirteenth.example.com"], { namespace: "other" }));
    await until("the new name", () => has(uid, "thirteenth.example.com"), 60_000);
  });
});

describe("the end of Switchback", () => {
  it("when the DaemonSet is told to leave, every block and the Lease go; both return if withdrawn", async () => {
    const uid = await runPod("shop", "leaving");
    await system.apply(ingress("last", ["last.example.com"], { namespace: "other" }));
    await until_(uid, "last.example.com");
    await system.kubectl("-n", AGENTS, "annotate", "daemonset", "switchback-agent", "switchback.dev/leaving=true");
    await gone(uid, "last.example.com");
    const leases = () => system.kubectl("-n", AGENTS, "get", "leases", "-o", "name");
    await until("the Lease to be gone", async () => (await leases()) === "");
    await system.kubectl("-n", AGENTS, "annotate", "daemonset", "switchback-agent", "switchback.dev/leaving-");
    await until_(uid, "last.example.com");
    await until("the Lease to be back", async () => (await leases()) !== "");
    await system.kubectl("-n", AGENTS, "delete", "daemonset", "switchback-agent");
    await gone(uid, "last.example.com");
  });
});
