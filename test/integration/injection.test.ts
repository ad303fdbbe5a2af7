import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { ingress, mapped, namespaceYaml, type Pod, type PodParts, podObject } from "./objects.ts";
import { NAMESPACE, type System, startSystem, webhookMetric } from "./system.ts";

let system: System;
before(async () => {
  system = await startSystem();
  await system.apply(`${ingress("shop", ["shop.example.com", "api.example.com"])}
${namespaceYaml("labelled", "enabled")}${namespaceYaml("plain")}`);
  await system.ready(["shop.example.com", "api.example.com"]);
});
after(() => system?.stop());

async function create(namespaceName: string, name: string, parts: PodParts = {}, flags: string[] = []): Promise<Pod> {
  const args = ["create", "-f", "-", "-o", "json", ...flags];
  const input = JSON.stringify(podObject(namespaceName, name, parts));
  const { code, stdout, stderr } = await system.cluster.tool("kubectl", args, { input });
  assert.equal(code, 0, stderr);
  return JSON.parse(stdout) as Pod;
}

const calls = () => webhookMetric(system, "switchback_webhook_admissions_total");

const BOTH = ["api.example.com", "shop.example.com"];

describe("a pod, created on a real API server", () => {
  it("in a labelled namespace comes back mutated, after exactly one call", async () => {
    const before = await calls();
    const pod = await create("labelled", "one");
    assert.deepEqual(mapped(pod), BOTH);
    assert.equal(await calls(), before + 1);
    const [front] =
      (
        await system.kubectl(
          "-n",
          NAMESPACE,
          "get",
          "svc",
          "switchback-ingress-nginx",
          "-o",
          "jsonpath={.spec.clusterIPs}",
        )
      ).match(/[0-9a-f.:]+/) ?? [];
    assert.ok(
      pod.spec.hostAliases?.some(({ ip }) => ip === front),
      "the alias leads to the front Service",
    );
  });

  it("that did not opt in is not sent to the webhook and stays as it is", async () => {
    const before = await calls();
    const pod = await create("plain", "untouched");
    assert.equal(pod.spec.hostAliases, undefined);
    assert.equal(pod.metadata.annotations, undefined);
    assert.equal(await calls(), before);
  });

  for (const [space, label, expected, count] of [
    ["labelled", "disabled", [], 0],
    ["plain", "enabled", BOTH, 1],
    ["labelled", "enabled", BOTH, 1],
    ["labelled", "yes-please", BOTH, 1],
    ["plain", "yes-please", [], 0],
    [NAMESPACE, "enabled", [], 0],
    ["kube-system", "enabled", [], 0],
  ] as const) {
    it(`in the namespace ${space} with the label ${label} causes ${count} calls`, async () => {
      const before = await calls();
      // Our own namespace enforces the restricted level. This pod does not meet it, so it is only a dry run there.
      const pod = await create(
        space,
        `label-${label}`,
        { labels: { "switchback.dev/inject": label } },
        space === NAMESPACE ? ["--dry-run=server"] : [],
      ).catch((error: unknown) => {
        if (space === NAMESPACE && String(error).includes("PodSecurity")) return { metadata: { name: "" }, spec: {} };
        throw error;
      });
      assert.deepEqual(mapped(pod), [...expected]);
      assert.equal(await calls(), before + count);
    });
  }

  it("keeps its own aliases, first and in order, and keeps its own address of a name", async () => {
    const own = [
      { ip: "192.0.2.9", hostnames: ["legacy.example.com", "shop.example.com"] },
      { ip: "192.0.2.1", hostnames: ["other.example.com"] },
    ];
    const pod = await create("labelled", "own-aliases", { hostAliases: own });
    assert.deepEqual(pod.spec.hostAliases?.slice(0, 2), own);
    assert.ok(pod.spec.hostAliases?.slice(2).every(({ hostnames }) => !hostnames.includes("shop.example.com")));
    assert.ok(mapped(pod).includes("api.example.com"));
  });

  it("is injected on hostNetwork too, and in a dry run", async () => {
    assert.deepEqual(mapped(await create("labelled", "host-network", { hostNetwork: true })), BOTH);
    const dry = await create("labelled", "dry", {}, ["--dry-run=server"]);
    assert.deepEqual(mapped(dry), BOTH);
    const { code } = await system.cluster.kubectl("-n", "labelled", "get", "pod", "dry");
    assert.notEqual(code, 0, "a dry run makes nothing");
  });

  it("follows the map: the next pod has the name of a new Ingress, and a changed name of that Ingress", async () => {
    for (const host of ["late", "later"]) {
      await system.apply(ingress("late", [`${host}.example.com`]));
      await system.ready([`${host}.example.com`]);
      assert.ok(mapped(await create("labelled", `after-${host}`)).includes(`${host}.example.com`));
    }
  });

  it("is created even if no webhook answers, and then has nothing of ours", async () => {
    const [webhook] = system.webhooks;
    assert.ok(webhook);
    await system.end(webhook, "SIGTERM");
    const pod = await create("labelled", "fail-open");
    assert.equal(pod.spec.hostAliases, undefined);
    assert.equal(pod.metadata.annotations?.["switchback.dev/revision"], undefined);
    await system.start("webhook");
    await system.ready();
    assert.ok(mapped(await create("labelled", "back-again")).includes("shop.example.com"));
  });
});
