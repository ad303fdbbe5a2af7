import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { parse } from "yaml";
import { type HostAlias, ingress, mapped, namespaceYaml, type Pod } from "./objects.ts";
import { type System, startSystem, until } from "./system.ts";

// What `switchback inject` prints from the live map, as kubectl, the API server and the webhook take it. The tests in
// cli/inject have everything about the text.

const FIRST = ["api.example.com", "shop.example.com"];
const LATER = ["api.example.com", "new.example.com"];
const OWN = { ip: "192.0.2.1", hostnames: ["own.example.com"] };

let system: System;
before(async () => {
  system = await startSystem({
    before: ["client-side", "server-side"].map((name) => namespaceYaml(name)).join("") + namespaceYaml("in", "enabled"),
    values: { config: { map: { vanishSeconds: 0, guardHoldSeconds: 0 } } },
  });
});
after(() => system?.stop());

/** Publishes exactly these names, and waits until the webhook has them. */
async function publish(names: readonly string[]): Promise<void> {
  await system.apply(ingress("shop", names));
  await until("the map", async () => [...(await system.publishedNames())].sort().join() === names.join());
  await system.ready(names);
}

/** The objects of the kinds, as one List. The pod template of each has an alias already. */
function sources(namespace: string, ...kinds: string[]): object {
  const labels = { app: "web" };
  const containers = [{ name: "c", image: "example.com/c:1" }];
  const pod = { metadata: { labels }, spec: { hostAliases: [OWN], containers } };
  const jobTemplate = { spec: { template: { ...pod, spec: { ...pod.spec, restartPolicy: "Never" } } } };
  const bodies: Readonly<Record<string, object>> = {
    Deployment: { apiVersion: "apps/v1", spec: { selector: { matchLabels: labels }, template: pod } },
    CronJob: { apiVersion: "batch/v1", spec: { schedule: "0 0 1 1 *", jobTemplate } },
    Pod: { apiVersion: "v1", spec: pod.spec },
  };
  const items = kinds.map((kind) => ({ kind, metadata: { name: "web", namespace }, ...bodies[kind] }));
  return { apiVersion: "v1", kind: "List", items };
}

async function injected(objects: object): Promise<string> {
  const { code, stdout, stderr } = await system.cli(["inject", "-f", "-"], { input: JSON.stringify(objects) });
  assert.equal(code, 0, stderr);
  return stdout;
}

async function apply(input: string, ...flags: string[]): Promise<string> {
  const { code, stdout, stderr } = await system.cluster.tool("kubectl", ["apply", ...flags, "-f", "-"], { input });
  assert.equal(code, 0, stderr);
  assert.doesNotMatch(stderr, /duplicate|warning/i);
  return stdout;
}

interface PodSpec {
  readonly hostAliases?: HostAlias[];
}

interface Item {
  readonly spec: PodSpec & {
    readonly template?: { readonly spec: PodSpec };
    readonly jobTemplate?: { readonly spec: { readonly template: { readonly spec: PodSpec } } };
  };
}

/** The aliases in the pod template of each item of a List, sorted by address. */
function aliasesIn({ items }: { readonly items: readonly Item[] }): HostAlias[][] {
  return items.map(({ spec }) => {
    const { hostAliases = [] } = spec.jobTemplate?.spec.template.spec ?? spec.template?.spec ?? spec;
    return hostAliases.toSorted((a, b) => (a.ip < b.ip ? -1 : 1));
  });
}

async function live(namespace: string, ...kinds: string[]): Promise<HostAlias[][]> {
  return aliasesIn(await system.json("-n", namespace, "get", ...kinds.map((kind) => `${kind.toLowerCase()}/web`)));
}

for (const flags of [[], ["--server-side"]]) {
  it(`kubectl apply ${flags} takes it exactly, again without a change, and from another map`, async () => {
    const namespace = flags.length === 0 ? "client-side" : "server-side";
    const workloads = ["Deployment", "CronJob"];
    await publish(FIRST);
    const first = await injected(sources(namespace, ...workloads, "Pod"));
    await apply(first, ...flags);
    assert.deepEqual(await live(namespace, ...workloads, "Pod"), aliasesIn(parse(first)));
    for (const line of (await apply(first, ...flags)).trim().split("\n"))
      assert.match(line, /unchanged|serverside-applied/);
    await publish(LATER);
    const second = await injected(sources(namespace, ...workloads));
    await apply(second, ...flags);
    const found = await live(namespace, ...workloads);
    assert.deepEqual(found, aliasesIn(parse(second)));
    for (const hostAliases of found) {
      const pod = { metadata: { name: "web" }, spec: { hostAliases } };
      assert.deepEqual(mapped(pod), [...LATER, ...OWN.hostnames].sort());
    }
  });
}

it("the webhook updates a pod with it, which has each name once per address", async () => {
  await publish(FIRST);
  const printed = await injected(sources("in", "Pod"));
  for (const names of [FIRST, LATER]) {
    await publish(names);
    await apply(printed);
    const { spec } = await system.json<Pod>("-n", "in", "get", "pod", "web");
    const lines = (spec.hostAliases ?? []).flatMap(({ ip, hostnames }) => hostnames.map((name) => `${ip} ${name}`));
    const ours = names.flatMap((name) => [name, name]);
    assert.deepEqual(lines.map((line) => line.split(" ")[1]).sort(), [...ours, ...OWN.hostnames].sort());
    assert.equal(new Set(lines).size, lines.length, lines.join("\n"));
    await system.kubectl("-n", "in", "delete", "pod", "web", "--now");
  }
});
