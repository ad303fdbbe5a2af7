import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { Following } from "#test/integration/following.ts";
import { Kubelet } from "#test/integration/kubelet.ts";
import { ingress, mapped, workload } from "#test/integration/objects.ts";
import { type System, startSystem, until } from "#test/integration/system.ts";
import { A, B, type DnsPod, PodDnsRig, usable, viaNamespace, whyNot } from "./pod-dns-rig.ts";

// Running pods that have the resolvers of pod DNS: they are not restarted for a new name, and an uninstall does not
// leave them without DNS.

const NS = "resolving";
const NAME = "web";
let system: System;
let kubelet: Kubelet;
let follow: Following;
const rig = new PodDnsRig();
const skip = await whyNot();

async function podsOf(): Promise<DnsPod[]> {
  return (await follow.pods(NAME)) as unknown as DnsPod[];
}

describe("a running pod with the resolvers", { skip }, () => {
  before(async () => {
    await rig.start();
    const restart = { namespaces: [NS], minIntervalSeconds: 1 };
    system = await startSystem({ values: rig.values({ restart }), before: viaNamespace(NS, "dns") });
    kubelet = new Kubelet(system, NS);
    follow = new Following(system, NS);
    await system.showWebhooks();
    await system.apply(ingress("first", ["first.example.com"]));
    await system.ready(["first.example.com"]);
    await system.apply(workload("Deployment", NAME, NS));
    // A pod that was created while a check failed has hostAliases. Delete it, so that another one replaces it.
    await until(
      "a pod with the resolvers",
      async () => {
        await usable(system, 1);
        const pods = await podsOf();
        const others = pods.filter(({ spec }) => spec.dnsPolicy !== "None");
        for (const { metadata } of others) await system.kubectl("-n", NS, "delete", "pod", metadata.name, "--now");
        return pods.length > 0 && others.length === 0;
      },
      120_000,
    );
    await follow.rolledOut("Deployment", NAME);
  });
  after(async () => {
    await kubelet?.stop();
    await system?.stop();
    rig.stop();
  });

  it("is in step before and after a new name, and is not restarted", async () => {
    await follow.codeIs(NAME, "in-step");
    await follow.addName("second.example.com");
    const { revision } = await system.map();
    await until("the leader to know the name", async () => {
      const status = await (await system.leader()).status();
      return JSON.stringify(status).includes(revision);
    });
    await follow.codeIs(NAME, "in-step");
    const status = await follow.statusOf(NAME);
    assert.deepEqual([status?.stale, status?.notInjected], [0, 0]);
    assert.equal(await follow.changes(NAME), 0);
    const [pod] = await podsOf();
    assert.deepEqual(pod?.spec.dnsConfig?.nameservers, [A, B]);
  });

  it("holds the addresses of the resolvers, so an uninstall ends only after it has restarted the pod", async () => {
    const check = await system.cli(["uninstall", "--check"]);
    assert.equal(check.code, 1);
    assert.match(check.stdout, new RegExp(`are restarted:\\n {5}${NS}/Deployment/${NAME} \\(`));
    assert.match(check.stderr, /^switchback: 1 pod holds addresses of Switchback/);
    const ended = await system.cli(["uninstall", "--yes", "--timeout", "120"]);
    assert.equal(ended.code, 0, ended.stderr);
    const pods = await podsOf();
    assert.ok(pods.length > 0);
    for (const pod of pods) {
      assert.deepEqual([pod.spec.dnsPolicy, pod.spec.dnsConfig, mapped(pod)], ["ClusterFirst", undefined, []]);
    }
  });
});
