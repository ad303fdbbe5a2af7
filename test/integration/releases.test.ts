import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { DNS_REVISION } from "#hostmap/inject-dns.ts";
import { HOLD_KEY, OWNED_KEY, RESOLVERS_KEY, REVISION_KEY } from "#hostmap/metadata-keys.ts";
import type { RemovalHold } from "#hostmap/removal-guard.ts";
import { releaseBefore } from "../cluster/release-before.ts";
import { hasName, kubeletFiles } from "../fakes/kubelet-files.ts";
import { enoughToRestart, Following } from "./following.ts";
import { recordMap } from "./history.ts";
import { Kubelet } from "./kubelet.ts";
import { ingress, namespaceYaml, type Pod, podObject, workload } from "./objects.ts";
import type { DnsPod } from "./pod-dns-rig.ts";
import { type System, startSystem, until } from "./system.ts";

// The release before and this one, side by side on a real API server, as in a rolling upgrade and a rollback: each one's controller with
// the other's webhook, proxy and agent, and each one's leader after the other's. Their programs are real; there is no kubelet.

const treeNow = join(import.meta.dirname, "..", "..");
const SHOP = "shop";
const LIVELY = "lively";
const BASE = Array.from({ length: 12 }, (_, index) => `base-${String.fromCharCode(109 - index)}.example.com`);
const DROPPED = Array.from({ length: 20 }, (_, index) => `dropped-${index}.example.com`);
const VALUES = {
  webhook: { replicas: 1 },
  agent: { enabled: true },
  config: {
    controller: { leaseSeconds: 5, renewDeadlineSeconds: 3, retrySeconds: 0.5 },
    map: { vanishSeconds: 1 },
    pods: { agentSilenceSeconds: 60 },
    agent: { sweepSeconds: 2, renewSeconds: 2 },
    // The second restart of a workload is an hour away, so that a forgotten first one shows.
    restart: { namespaces: [SHOP, LIVELY], debounceSeconds: 1, minIntervalSeconds: 3600 },
  },
};

const old = await releaseBefore();
if (old !== undefined) describe("the release before and this one", () => sideBySide(old));

function sideBySide(treeBefore: string): void {
  const cleanups: Array<() => void> = [];
  const files = kubeletFiles({ after: (done) => cleanups.push(done as () => void) });
  let system: System;
  let kubelet: Kubelet;
  const shop = () => new Following(system, SHOP);
  const lively = () => new Following(system, LIVELY);

  before(async () => {
    const namespaces = namespaceYaml(SHOP, "enabled") + namespaceYaml(LIVELY, "enabled");
    system = await startSystem({ tree: treeBefore, values: VALUES, before: namespaces });
    kubelet = new Kubelet(system, SHOP, LIVELY);
    kubelet.files = files;
    await system.showWebhooks();
    await system.kubectl("annotate", "namespace", LIVELY, "switchback.dev/on-change=live");
    await system.startProxy();
    await system.startAgent(files.root);
    await system.apply(BASE.map((name, index) => ingress(`base-${index}`, [name])).join(""));
    await system.ready(BASE);
    const steady = { annotations: { "switchback.dev/hosts": BASE.join(",") } };
    await system.apply(workload("Deployment", "steady", SHOP, { template: steady }));
    await shop().rolledOut("Deployment", "steady");
    await system.apply(workload("Deployment", "web", LIVELY));
    await lively().rolledOut("Deployment", "web");
  });
  after(async () => {
    await kubelet?.stop();
    await system?.stop();
    for (const done of cleanups) done();
  });

  /** Ends what runs of the webhook, the proxy and the agent, and starts those of the tree. */
  async function exchangeReaders(tree: string): Promise<void> {
    system.tree = tree;
    const [webhook, proxy, agent] = [system.webhooks[0], system.proxies[0], system.agents[0]];
    assert.ok(webhook && proxy && agent);
    await system.start("webhook");
    await system.ready();
    await system.end(webhook, "SIGTERM");
    await system.showWebhooks();
    await system.end(proxy, "SIGTERM");
    await system.startProxy();
    await system.end(agent, "SIGTERM");
    await system.startAgent(files.root);
  }

  /** A controller of the tree leads after the one that leads now; nothing of the map is lost meanwhile. */
  async function takeOver(tree: string, signal: "SIGTERM" | "SIGKILL"): Promise<void> {
    system.tree = tree;
    const [leader] = system.controllers;
    assert.ok(leader);
    const names = [...(await system.publishedNames())];
    const editions = await recordMap(system);
    const next = await system.start("controller");
    await until("it to know the cluster", async () => (await next.page("/readyz")).status === 200);
    await system.end(leader, signal);
    assert.equal(await system.leader(), next);
    for (const { hosts } of await editions())
      assert.deepEqual(
        names.filter((name) => !hosts.has(name)),
        [],
      );
  }

  /** A pod as it would be created. */
  async function wouldBe<P extends Pod>(pod: object): Promise<P> {
    const args = ["-n", SHOP, "create", "--dry-run=server", "-o", "json", "-f", "-"];
    const { code, stdout, stderr } = await system.cluster.tool("kubectl", args, { input: JSON.stringify(pod) });
    assert.equal(code, 0, stderr);
    return JSON.parse(stdout) as P;
  }

  const aliasesOf = ({ spec }: Pod) =>
    (spec.hostAliases ?? []).flatMap(({ ip, hostnames }) => hostnames.map((name) => `${name} ${ip}`)).sort();

  /** What a new pod gets: addresses by name. */
  async function injected(): Promise<string[]> {
    return aliasesOf(await wouldBe(podObject(SHOP, "would-be")));
  }

  /** How a pod resolves that is created from the manifest of one with the resolvers of pod DNS, and is to have hostAliases. */
  async function withResolvers() {
    const resolvers = ["198.51.100.7", "198.51.100.8"];
    const annotations = { [RESOLVERS_KEY]: resolvers.join(" "), [REVISION_KEY]: DNS_REVISION, [OWNED_KEY]: "none" };
    const { spec, ...object } = podObject(SHOP, "would-be-by-dns", { annotations }) as { spec: object };
    const dns = { dnsPolicy: "None", dnsConfig: { nameservers: resolvers } };
    const pod = await wouldBe<DnsPod>({ ...object, spec: { ...spec, ...dns } });
    const isKept = pod.spec.dnsConfig?.nameservers?.join() === resolvers.join();
    return { aliases: aliasesOf(pod), policy: pod.spec.dnsPolicy, isKept };
  }

  /** A new name, published by the current leader, reaches new pods and the running pods that follow live. */
  async function nameArrives(name: string): Promise<void> {
    await system.apply(ingress(name.replaceAll(".", "-"), [name]));
    await system.ready([name]);
    assert.ok(
      (await injected()).some((line) => line.startsWith(`${name} `)),
      `${name} in a new pod`,
    );
    await until(`${name} in the running pod`, async () => {
      const [pod] = await lively().pods("web");
      const path = files.path(pod?.metadata.uid ?? "none");
      return existsSync(path) && hasName(readFileSync(path, "latin1"), name);
    });
    await lively().codeIs("web", "in-step");
    assert.equal(await lively().changes("web"), 0);
  }

  /** The pod that follows live is now one that the webhook of now has injected. */
  async function replaceLivePod(): Promise<void> {
    const [earlier] = await lively().pods("web");
    await system.kubectl("-n", LIVELY, "delete", "pod", "-l", "app=web", "--wait=false");
    await until("another pod", async () => {
      const [pod] = await lively().pods("web");
      return pod?.metadata.uid !== earlier?.metadata.uid && existsSync(files.path(pod?.metadata.uid ?? "none"));
    });
    await lively().rolledOut("Deployment", "web");
  }

  /** The pods whose names have not changed are in step for the current leader. */
  async function isSteady(): Promise<void> {
    await shop().codeIs("steady", "in-step");
    assert.equal(await shop().changes("steady"), 0);
  }

  async function hold(): Promise<RemovalHold | undefined> {
    const text = (await system.index()).annotations[HOLD_KEY];
    return text === undefined ? undefined : (JSON.parse(text) as RemovalHold);
  }

  async function addAndDrop(): Promise<void> {
    await system.apply(ingress("dropped", DROPPED));
    await system.ready(DROPPED);
    await system.kubectl("delete", "ingress", "dropped");
    await until("the hold", async () => (await hold())?.names === DROPPED.length);
  }

  async function confirmed(names: readonly string[]): Promise<void> {
    const { code, stdout, stderr } = await system.cli(["confirm", "--yes"]);
    assert.equal(code, 0, stderr);
    assert.match(stdout, new RegExp(`^${DROPPED.length} of `));
    await until("the hold to end", async () => (await hold()) === undefined);
    await until("them to leave", async () => (await system.publishedNames()).isDisjointFrom(new Set(DROPPED)));
    assert.deepEqual([...(await system.publishedNames())].sort(), names.toSorted());
  }

  /** A workload of that name, restarted once because it lacks a new name. Gives when. */
  async function restartedOnce(name: string): Promise<string> {
    await system.apply(workload("Deployment", name, SHOP));
    await shop().rolledOut("Deployment", name);
    await shop().codeIs(name, "in-step");
    await nameArrives(`${name}.example.com`);
    await until(`${name} to be restarted`, () => shop().haveName(name, `${name}.example.com`));
    await shop().codeIs(name, "in-step");
    return (await shop().statusOf(name))?.lastRestart ?? assert.fail(`no restart of ${name} is known`);
  }

  /** It waits for its interval: the current leader knows its one restart. */
  async function isNotRestartedAgain(name: string, lastRestart: string): Promise<void> {
    await shop().codeIs(name, "interval");
    assert.equal((await shop().statusOf(name))?.lastRestart, lastRestart);
    assert.equal(await shop().changes(name), 1);
  }

  /** Every published name with its addresses, as the index and its shards have them. */
  async function published(): Promise<string[]> {
    return [...(await system.published())].map(([name, addresses]) => `${name} ${addresses.join(" ")}`).sort();
  }

  let firstRestart: string;
  let secondRestart: string;

  it("this one's chart, webhook, proxy and agent work with the controller before", async () => {
    firstRestart = await restartedOnce("first");
    const [map, aliases] = [await published(), await injected()];
    system.tree = treeNow;
    await system.install(VALUES);
    await exchangeReaders(treeNow);
    assert.deepEqual(await injected(), aliases);
    assert.deepEqual(await published(), map);
    await nameArrives("upgrading.example.com");
    await isSteady();
    await isNotRestartedAgain("first", firstRestart);
  });

  it("this one's controller takes over the map, a held removal and the restarts of the one before", async () => {
    const kept = [...(await system.publishedNames())];
    await addAndDrop();
    const map = await published();
    await takeOver(treeNow, "SIGTERM");
    await until("its own hold", async () => (await (await system.leader()).status()).hold?.names === DROPPED.length);
    assert.deepEqual(await published(), map);
    await confirmed(kept);
    await isSteady();
    await isNotRestartedAgain("first", firstRestart);
  });

  it("this one's controller works with the webhook, the proxy and the agent before", async () => {
    const aliases = await injected();
    await replaceLivePod();
    assert.deepEqual(await withResolvers(), { aliases, policy: "ClusterFirst", isKept: false });
    await exchangeReaders(treeBefore);
    assert.deepEqual(await injected(), aliases);
    // The release before does not know pod DNS: it takes no pod's DNS away.
    assert.deepEqual(await withResolvers(), { aliases, policy: "None", isKept: true });
    secondRestart = await restartedOnce("second");
    await replaceLivePod();
    await isSteady();
    await isNotRestartedAgain("first", firstRestart);
  });

  // The chart before takes rights away that this one's controller has: what is new may wait until its own controller leads.
  it("a rollback: the controller before takes over all of that from this one's", async () => {
    const kept = [...(await system.publishedNames())];
    const aliases = await injected();
    await addAndDrop();
    const map = await published();
    await system.rollBack(1, treeBefore);
    await takeOver(treeBefore, "SIGKILL");
    await until("its own hold", async () => (await (await system.leader()).status()).hold?.names === DROPPED.length);
    assert.deepEqual(await published(), map);
    await confirmed(kept);
    assert.deepEqual(await injected(), aliases);
    await nameArrives("rolled-back.example.com");
    await isSteady();
    await isNotRestartedAgain("first", firstRestart);
    await isNotRestartedAgain("second", secondRestart);
  });

  it("an upgrade after a rollback", async () => {
    const [map, aliases] = [await published(), await injected()];
    system.tree = treeNow;
    await system.install(VALUES);
    await takeOver(treeNow, "SIGKILL");
    await exchangeReaders(treeNow);
    assert.deepEqual(await published(), map);
    assert.deepEqual(await injected(), aliases);
    await nameArrives("upgraded-again.example.com");
    await isSteady();
    await isNotRestartedAgain("first", firstRestart);
    await isNotRestartedAgain("second", secondRestart);
    await enoughToRestart();
    await isSteady();
    assert.deepEqual([await lively().changes("web"), await shop().changes("first")], [0, 1]);
  });
}
