import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { CERT_MANAGER } from "../cluster/addons/cert-manager.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { withCluster } from "../cluster/whole.ts";
import { getMapped, inClient, OPTED_IN, optIn } from "./opted-in.ts";
import { programCommand, programDeployment, RESOLVE } from "./programs/run.ts";
import { NAME, resolvedPlainly } from "./shop.ts";
import { installSwitchback, OPT_IN, SYSTEM, withAgent } from "./switchback.ts";

// Uninstall: `helm uninstall` restarts the pods that hold our addresses, where it is allowed to. It refuses while other
// pods hold one.

export const needs: string[] = [];

/** A namespace whose running pods the node's agent keeps current. Its pod existed before the namespace opted in. */
const FOLLOWING = "following";

let cluster: Cluster;

before(async () => {
  cluster = await withCluster();
  await cluster.kubectl("delete", "namespace", FOLLOWING, "--ignore-not-found", "--timeout=120s");
  await cluster.kubectl("create", "namespace", FOLLOWING);
  await cluster.apply(programDeployment(FOLLOWING, "client", programCommand("sleep")));
  await cluster.rolledOut(FOLLOWING, "deployment/client");
  await installSwitchback(cluster, withAgent({ restart: { namespaces: [CERT_MANAGER] } }));
  await optIn(cluster);
  await cluster.kubectl("annotate", "namespace", FOLLOWING, "switchback.dev/on-change=live");
  await cluster.kubectl("label", "namespace", FOLLOWING, OPT_IN);
  await cluster.until("the name in the file", 60, async () => (await hostsFile()).includes(NAME) || undefined);
});

after(async () => {
  await cluster?.kubectl("delete", "namespace", FOLLOWING, "--ignore-not-found", "--timeout=120s");
});

/** The hosts file of the pod in FOLLOWING. */
async function hostsFile(): Promise<string> {
  const read = ["node", "-p", "fs.readFileSync('/etc/hosts', 'latin1')"];
  const { code, stdout, stderr } = await cluster.exec(`${FOLLOWING}/deployment/client`, ...read);
  assert.equal(code, 0, stderr);
  return stdout;
}

async function uninstall(): Promise<{ code: number; text: string }> {
  const args = ["uninstall", "switchback", "--namespace", SYSTEM, "--wait"];
  const { code, stdout, stderr } = await cluster.tool("helm", args);
  return { code, text: stdout + stderr };
}

/** Namespaces with a running pod that the webhook has injected. */
async function injected(): Promise<string[]> {
  const { items } = await cluster.get<{
    items: { metadata: { namespace: string; annotations?: Record<string, string> }; status: { phase: string } }[];
  }>("pods", "-A");
  const found = items.filter(({ metadata, status }) => {
    const { "switchback.dev/owned": owned = "none" } = metadata.annotations ?? {};
    return owned !== "none" && status.phase !== "Succeeded";
  });
  return [...new Set(found.map(({ metadata }) => metadata.namespace))].sort();
}

test("helm uninstall restarts the pods that it may, names the others and refuses; those work as before", async () => {
  // Only cert-manager may be restarted. Its pods have opted in long ago.
  assert.deepEqual(await injected(), [CERT_MANAGER, OPTED_IN]);
  const { code, text } = await uninstall();
  assert.notEqual(code, 0);
  assert.match(
    text,
    /opted-in\/Deployment\/client \(.*\): opted-in is not in restart\.namespaces or optIn\.namespaces: restart it/,
  );
  assert.deepEqual(await injected(), [OPTED_IN]);
  const answer = await getMapped(cluster, `http://${NAME}/`);
  assert.equal(answer.status, 200, JSON.stringify(answer));
  assert.ok((await hostsFile()).includes(NAME), "the agents stay as long as anything does");
});

test("after the other pods are recreated, helm uninstall succeeds, and no object of Switchback is left", async () => {
  await cluster.kubectl("-n", OPTED_IN, "rollout", "restart", "deployment/client");
  await cluster.rolledOut(OPTED_IN, "deployment/client");
  await cluster.until("the old pods are gone", 60, async () => (await injected()).length === 0 || undefined);
  const { code, text } = await uninstall();
  assert.equal(code, 0, text);
  assert.match(text, /no pod holds an address of Switchback/);
  assert.doesNotMatch(await hostsFile(), /switchback/, "the agents took their names out of the running pod's file");
  // Stopping pods serve for a while, until no Service leads to them.
  let left: string[] = [];
  const isGone = async () => {
    left = await ofOurs();
    return left.length <= 1 || undefined;
  };
  await cluster.until("nothing of ours is left", 60, isGone).catch(() => {});
  assert.deepEqual(left, [`namespace/${SYSTEM}`]);
  await cluster.kubectl("delete", "namespace", SYSTEM, "--timeout=120s");
});

/** All objects with "switchback" in their name, except Events. */
async function ofOurs(): Promise<string[]> {
  const kinds = (await cluster.kubectl("api-resources", "--verbs=list", "-o", "name")).trim().split("\n");
  const listed = kinds.filter((kind) => !/^events|metrics\.k8s\.io$/.test(kind)).join(",");
  const names = (await cluster.kubectl("get", listed, "-A", "-o", "name")).split("\n");
  return names.filter((name) => name.includes("switchback"));
}

test("a pod that had opted in gets the same result as without Switchback", async () => {
  assert.equal(await inClient(cluster, RESOLVE, NAME), await resolvedPlainly(cluster));
  const answer = await getMapped(cluster, `http://${NAME}/`);
  assert.match(answer.error ?? "", /^ECONNRESET/, "the ingress controller resets as before");
  await cluster.kubectl("label", "namespace", CERT_MANAGER, "switchback.dev/inject-");
});
