import assert from "node:assert/strict";
import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { query } from "#test/fakes/dns-message.ts";
import { type CoreDns, CoreDnsBed, LOCAL } from "#test/integration/coredns.ts";
import { ingress, namespaceYaml } from "#test/integration/objects.ts";
import { NAMESPACE, type System, startSystem, until } from "#test/integration/system.ts";
import { CorednsPublisher } from "../coredns.ts";
import { dnsReaders } from "../dns-readers.ts";
import { removePublisher } from "../remove.ts";
import { type PublisherRun, startPublisher } from "./publisher-run.ts";

// From an Ingress to the answer of a real CoreDNS, with a real API server and a controller. The test only simulates
// the kubelet, which copies the ConfigMap to the file of CoreDNS.

const NAME = "coredns";
const CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps/coredns";
const INGRESSES = "/apis/networking.k8s.io/v1/namespaces/shop/ingresses";
const COPY_MS = 20;
const CHANGES = 10;
const PUBLIC = "192.0.2.80";
const OTHER_PROXY = "198.51.100.66";
const ZONE = `$ORIGIN example.com.
@ 60 IN SOA ns.example.com. nobody.invalid. 1 3600 600 86400 60
* 60 IN A ${PUBLIC}
proxy 60 IN A ${OTHER_PROXY}
`;
const publishers = { coredns: { enabled: true } };

let system: System;
let bed: CoreDnsBed;
let original: string;
let server: CoreDns;
let publisher: PublisherRun;
/** The address that mapped names lead to. */
let front = "";
const kubelet = new AbortController();
let copying: Promise<void>;

before(async () => {
  system = await startSystem({ values: { config: { map: { vanishSeconds: 0 }, publishers } } });
  bed = new CoreDnsBed();
  const upstream = await bed.upstream("upstream", { "example.com.": ZONE });
  original = `.:53 {\n    bind ${LOCAL}\n    forward . ${LOCAL}:${upstream.port}\n    reload 2s 1s\n}\n`;
  const body = { metadata: { name: "coredns" }, data: { Corefile: original } };
  const path = "/api/v1/namespaces/kube-system/configmaps?fieldManager=kubeadm";
  assert.equal((await system.cluster.call({ method: "POST", path, body })).status, 201);
  let toFile = (text: string) => text;
  server = await bed.server("cluster", (port, ready) => {
    toFile = (text) => text.replaceAll(":53 {", `:${port} {`).replace("    reload", `    ready ${ready}\n    reload`);
    return toFile(original);
  });
  copying = copy((text) => toFile(text));
  publisher = await start();
  await system.apply(namespaceYaml("shop"));
});
after(async () => {
  kubelet.abort();
  await copying;
  await publisher?.stop();
  await Promise.all([bed?.stop(), system?.stop()]);
});

const readers = () => dnsReaders(NAME, () => [`${LOCAL}:${server.port}`]);

function start(): Promise<PublisherRun> {
  return startPublisher(
    system,
    NAME,
    (publishers, client) => new CorednsPublisher(publishers.coredns, client, readers()),
  );
}

/** Does what the kubelet does. CoreDNS never reads a partly written file. */
async function copy(toFile: (text: string) => string): Promise<void> {
  const file = join(bed.folder, "cluster.Corefile");
  let last = original;
  while (!kubelet.signal.aborted) {
    const text = await corefile();
    if (text !== last) {
      writeFileSync(`${file}.new`, toFile(text));
      renameSync(`${file}.new`, file);
      last = text;
    }
    await delay(COPY_MS);
  }
}

interface ConfigMap {
  readonly metadata: { readonly resourceVersion: string };
  readonly data: Readonly<Record<string, string>>;
}

const configMap = async () => (await system.cluster.call({ path: CONFIG_MAP })).body as ConfigMap;
const corefile = async () => (await configMap()).data.Corefile ?? "";
const addresses = async (name: string) => (await query(server, name, "A")).addresses;

/** Changes the Corefile as this field manager. Keeps changes that others made meanwhile. */
async function edit(manager: string, change: (text: string) => string): Promise<void> {
  const path = `${CONFIG_MAP}?fieldManager=${manager}`;
  const contentType = "application/merge-patch+json";
  await until("the Corefile to be changed", async () => {
    const { metadata, data } = await configMap();
    const { resourceVersion } = metadata;
    const body = { metadata: { resourceVersion }, data: { Corefile: change(data.Corefile ?? "") } };
    return (await system.cluster.call({ method: "PATCH", path, contentType, body })).status === 200;
  });
}

async function create(name: string): Promise<void> {
  const [host = ""] = name.split(".");
  const body = JSON.parse(ingress(host, [name], { namespace: "shop" }).split("---")[0] ?? "");
  assert.equal((await system.cluster.call({ method: "POST", path: INGRESSES, body })).status, 201);
}

async function state() {
  const found = (await publisher.store.read())?.state;
  assert.ok(found !== undefined && !("code" in found));
  return found;
}

describe("coredns", () => {
  it("soon has the name of a new Ingress in the Corefile, and its document says when CoreDNS answers it", async (t) => {
    const took: number[] = [];
    for (let index = 0; index < CHANGES; index += 1) {
      const name = `soon-${index}.example.com`;
      const created = performance.now();
      await create(name);
      await until(name, async () => (await corefile()).includes(name));
      took.push(performance.now() - created);
    }
    took.sort((a, b) => a - b);
    const [p50 = 0, most = 0] = [took[CHANGES / 2 - 1], took.at(-1)];
    t.diagnostic(
      `Ingress created to the Corefile written: ${p50.toFixed(0)} ms p50, ${most.toFixed(0)} ms at most of ${CHANGES}`,
    );
    const service = ["-n", NAMESPACE, "get", "service", "switchback-ingress-nginx", "-o", "jsonpath={.spec.clusterIP}"];
    front = await system.kubectl(...service);
    await until(
      "the document to say that all is answered",
      async () => (await state()).behindSince === undefined,
      30_000,
    );
    const { revision, answered, names } = await state();
    assert.deepEqual([answered?.revision, names], [revision, CHANGES]);
    assert.deepEqual(await addresses(`soon-${CHANGES - 1}.example.com`), [front]);
    assert.deepEqual(await addresses("unmapped.example.com"), [PUBLIC]);
  });

  it("answers beside a line that somebody writes into the Corefile, and leaves that line", async (t) => {
    const line = "    rewrite name theirs.example.com proxy.example.com\n";
    const created = performance.now();
    await create("ours.example.com");
    await edit("hairpin", (text) => text.replace("    forward", `${line}    forward`));
    const answered = async (name: string, address: string) => {
      await until(name, async () => (await addresses(name)).includes(address), 30_000);
      return (performance.now() - created) / 1_000;
    };
    const [ours, theirs] = await Promise.all([
      answered("ours.example.com", front),
      answered("theirs.example.com", OTHER_PROXY),
    ]);
    t.diagnostic(`answered by CoreDNS after ${ours.toFixed(1)} s, the line by hand after ${theirs.toFixed(1)} s`);
    assert.ok((await corefile()).includes(line));
    await edit("hairpin", (text) => text.replace(line, ""));
  });

  it("is removed while it runs, and the removal asks CoreDNS until it has forgotten the names", async () => {
    const lines: string[] = [];
    const { store, publisher: made } = publisher;
    const say = (line: string) => lines.push(line);
    await removePublisher({ publisher: made, store, canAsk: true, timeoutMs: 60_000, now: Date.now, say, pollMs: 100 });
    assert.equal(lines.at(-1), "coredns: the cluster's DNS has stopped answering, measured by asking");
    assert.deepEqual(await addresses("ours.example.com"), [PUBLIC]);
    assert.equal(await corefile(), original);
    await store.delete();
    await publisher.looked();
    assert.equal(await corefile(), original);
  });

  it("writes again what somebody takes back; the second time it stops, says who, and leaves CoreDNS", async () => {
    await publisher.stop();
    publisher = await start();
    for (let times = 1; times <= 2; times += 1) {
      await until("the part in the Corefile", async () => (await corefile()) !== original, 15_000);
      await until("the document", async () => (await state()).revision !== undefined, 15_000);
      await edit("flux", () => original);
      await until("the publisher to notice", async () => (await state()).takenBack.length === times, 15_000);
    }
    const { problem, stopped, takenBack, names } = await state();
    assert.deepEqual([problem?.code, stopped, names], ["publisher-taken-back", 1, 0]);
    assert.match(problem?.text ?? "", /^flux took back what was written/);
    assert.deepEqual(
      takenBack.map(({ by }) => by),
      ["flux", "flux"],
    );
    await create("late.example.com");
    await until("the map", async () => (await system.publishedNames()).has("late.example.com"));
    await publisher.looked();
    assert.equal(await corefile(), original);
  });
});
