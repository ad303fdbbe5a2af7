import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, it } from "node:test";
import { parseHosts } from "#hostmap/hosts-text.ts";
import { aliasesText, hasName, kubeletFiles } from "../fakes/kubelet-files.ts";
import { Following } from "./following.ts";
import { recordMap } from "./history.ts";
import { Kubelet } from "./kubelet.ts";
import { type HostAlias, ingress, namespaceYaml, workload } from "./objects.ts";
import { NAMESPACE, type System, startSystem, until } from "./system.ts";

// What the release before has written (commit 621b848, recorded on a real API server), read by this one. It runs where the history is
// missing that releases.test.ts takes.

interface Recorded {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly data: Readonly<Record<string, string>>;
  readonly spec: { readonly hostAliases: readonly HostAlias[] };
}

const FILE = join(import.meta.dirname, "recorded", "621b848.json");
const { items } = JSON.parse(readFileSync(FILE, "utf8")) as { items: Recorded[] };
const SHOP = "shop";
const LIVELY = "lively";
const HOUR_MS = 3_600_000;
const cleanups: Array<() => void> = [];
const files = kubeletFiles({ after: (done) => cleanups.push(done as () => void) });
let system: System;
let kubelet: Kubelet;
let uid: string;

const recorded = (kind: string, name: string) =>
  items.find((item) => item.kind === kind && item.metadata.name === name) ?? assert.fail(`no ${kind} ${name}`);
const MAP = parseHosts(recorded("ConfigMap", "switchback-hosts-0").data.hosts ?? "");
const NAMES = [...MAP.keys()].sort();

before(async () => {
  const namespaces = [namespaceYaml(NAMESPACE), namespaceYaml(SHOP, "enabled"), namespaceYaml(LIVELY, "enabled")];
  system = await startSystem({
    controllers: 0,
    webhooks: 0,
    // Before the chart's Services get addresses: one of them might get the front's.
    before: namespaces.join("") + JSON.stringify(recorded("Service", "switchback-ingress-nginx")),
    values: {
      webhook: { replicas: 1 },
      agent: { enabled: true },
      config: {
        map: { vanishSeconds: 1 },
        agent: { sweepSeconds: 2, renewSeconds: 2 },
        restart: { namespaces: [SHOP], debounceSeconds: 1, minIntervalSeconds: HOUR_MS / 1_000 },
      },
    },
  });
  await system.kubectl("annotate", "namespace", LIVELY, "switchback.dev/on-change=live");
  const configMaps = items.filter(({ kind }) => kind === "ConfigMap");
  await system.apply(JSON.stringify({ apiVersion: "v1", kind: "List", items: configMaps }));
  kubelet = new Kubelet(system, SHOP);
});
after(async () => {
  await kubelet?.stop();
  await system?.stop();
  for (const done of cleanups) done();
});

const fileHas = (name: string) => hasName(readFileSync(files.path(uid), "latin1"), name);

it("is enough for the proxy and the agent of this release, with no controller", async () => {
  await system.startProxy();
  const pod = recorded("Pod", "web");
  await system.apply(JSON.stringify(pod));
  ({ uid } = (await system.json<{ metadata: { uid: string } }>("-n", LIVELY, "get", "pod", "web")).metadata);
  files.write(uid, aliasesText(pod.spec.hostAliases));
  // It was made before this name was published.
  assert.ok(!fileHas("first.example.com"));
  await system.startAgent(files.root);
  await until("the name in its file", () => fileHas("first.example.com"));
  for (const name of NAMES) assert.ok(fileHas(name), name);
});

it("is taken over by the controller of this release: names, addresses and restarts", async () => {
  await system.apply(workload("Deployment", "first", SHOP, { spec: { replicas: 0 } }));
  const lastRestart = await recordIsOf("first", Date.now() - HOUR_MS / 2);
  await system.apply(NAMES.map((name, index) => ingress(`recorded-${index}`, [name])).join(""));
  const editions = await recordMap(system);
  await system.start("controller");
  await system.start("webhook");
  await system.ready(NAMES);
  await system.showWebhooks();
  assert.deepEqual(await system.published(), MAP);
  await system.kubectl("-n", SHOP, "scale", "deployment", "first", "--replicas=1");
  const follow = new Following(system, SHOP);
  await follow.rolledOut("Deployment", "first");
  await follow.codeIs("first", "in-step");
  await follow.addName("later.example.com");
  await follow.codeIs("first", "interval");
  assert.equal((await follow.statusOf("first"))?.lastRestart, lastRestart);
  for (const { hosts } of await editions())
    assert.deepEqual(
      [...MAP.keys()].filter((name) => !hosts.has(name)),
      [],
    );
});

it("shows the agent which names of a running pod are managed: one that leaves the map leaves its file", async () => {
  await until("the new name in its file", () => fileHas("later.example.com"));
  const [gone = ""] = NAMES;
  await system.kubectl("delete", "ingress", "recorded-0");
  await until("the name to leave its file", () => !fileHas(gone));
  assert.ok(fileHas("later.example.com"));
});

/** Makes the recorded restart one of a Deployment of now, at a time of now. Gives when, as the status has it. */
async function recordIsOf(name: string, at: number): Promise<string> {
  const { metadata } = await system.json<{ metadata: { uid: string } }>("-n", SHOP, "get", "deployment", name);
  const key = `${SHOP}.Deployment.${name}`;
  const record = JSON.parse(recorded("ConfigMap", "switchback-restarts").data[key] ?? "");
  Object.assign(record.restarts[0], { at, uid: metadata.uid });
  const patch = JSON.stringify({ data: { [key]: JSON.stringify(record) } });
  await system.kubectl("-n", NAMESPACE, "patch", "cm", "switchback-restarts", "--type=merge", "-p", patch);
  return new Date(at).toISOString();
}
