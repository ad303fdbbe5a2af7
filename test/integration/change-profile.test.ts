import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { ingress, mapped, namespaceYaml, type Pod, podObject } from "./objects.ts";
import { NAMESPACE, type System, startSystem, until } from "./system.ts";

// An install in the default profile changes to the profile `small`, and back. Names keep their addresses, so that
// running pods need no change, and the front Services lead to the new pods.

const NAME = "shop.example.com";
const VALUES = { config: { map: { vanishSeconds: 0 } } };

let system: System;
before(async () => {
  system = await startSystem({ values: VALUES, before: namespaceYaml("opted-in", "enabled") });
  await system.startProxy();
  await system.apply(ingress("shop", [NAME]));
  await system.ready([NAME]);
});
after(() => system?.stop());

async function front(): Promise<{ address: string; component: string | undefined }> {
  const { spec } = await system.json<{ spec: { clusterIP: string; selector: Record<string, string> } }>(
    ...["-n", NAMESPACE, "get", "service", "switchback-ingress-nginx"],
  );
  return { address: spec.clusterIP, component: spec.selector["app.kubernetes.io/component"] };
}

/** The names that the API server gives a new pod. */
async function namesOfNew(): Promise<string[]> {
  const path = "/api/v1/namespaces/opted-in/pods?dryRun=All";
  const { body } = await system.cluster.call({ method: "POST", path, body: podObject("opted-in", "one") });
  return mapped(body as Pod);
}

async function endAll(): Promise<void> {
  const replicas = [...system.controllers, ...system.webhooks, ...system.proxies];
  await Promise.all(replicas.map((replica) => system.end(replica, "SIGTERM")));
}

it("helm upgrade changes the profile both ways, and names keep their addresses", async () => {
  const { address } = await front();
  await system.install({ ...VALUES, profile: "small" });
  await endAll();
  await system.startAll();
  await until("the front Service selects the one pod", async () => (await front()).component === "all");
  await system.ready([NAME]);
  assert.deepEqual([(await front()).address, await namesOfNew()], [address, [NAME]]);
  await system.install({ ...VALUES, profile: "default" });
  await endAll();
  await system.start("controller");
  await system.start("webhook");
  await until("the front Service selects the proxies", async () => (await front()).component === "proxy");
  await system.ready([NAME]);
  assert.deepEqual([(await front()).address, await namesOfNew()], [address, [NAME]]);
});
