import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ApiAnswer, ApiRequest } from "../../cluster/api.ts";
import { NODE } from "../../cluster/kubelet.ts";
import { peakMemory } from "../../cluster/memory-group.ts";
import { ipv4, ipv4Answers, startDnsServer, TYPE_A } from "../../fakes/dns-server.ts";
import { aliasesText, hasName, type KubeletFiles, kubeletFiles } from "../../fakes/kubelet-files.ts";
import { targetsIn } from "../../published.ts";
import { ingress, mapped, namespaceYaml, type Pod, podObject } from "../objects.ts";
import { NAMESPACE, type System, startSystem, until } from "../system.ts";
import type { Profile, Replica } from "../system-options.ts";
import type { Place } from "./flood.ts";
import { Neighbours } from "./neighbours.ts";
import { type RelayedServer, startRelayedServer } from "./relayed-server.ts";

/** The chart's liveness probes fail after three attempts, 10 s apart. */
const HEALTH_MS = 30_000;
export const HOSTILE = "hostile";
export const NEIGHBOUR = "neighbour";
export const NEIGHBOUR_NAME = "shop.neighbour.example.com";
/**
 * In the cluster's DNS, each name below it has 4,000 IPv4 addresses and 2,300 IPv6 addresses, as many as an answer has
 * room for. Besides these, only the names of `Stage.records` exist there.
 */
export const WIDE = "wide.example.com";
const WIDE_IPV4 = Array.from({ length: 4_000 }, (_, index) => ipv4(`203.0.${index >> 8}.${index & 255}`));
const WIDE_IPV6 = Array.from({ length: 2_300 }, (_, index) =>
  Buffer.from(`20010db8ffffffffffffffffffff${(0x1000 + index).toString(16)}`, "hex"),
);

/** A cluster with all components, a hostile tenant and a neighbour. */
export interface Stage {
  readonly system: System;
  readonly profile: Profile;
  readonly neighbours: Neighbours;
  readonly kubelet: KubeletFiles;
  /** The proxy's listener for port 80 of the target. */
  readonly relay: Place;
  readonly relayed: RelayedServer;
  /** The names below `WIDE` that the cluster's DNS was asked for, with the number of questions. */
  readonly wideNames: Map<string, number>;
  /** IPv4 addresses by name in the cluster's DNS. An attack adds the names of its tenant. */
  readonly records: Map<string, string>;
  /** Calls the API server as a user with ClusterRole `edit` in the namespace `hostile`, and nothing else. */
  tenant(request: Omit<ApiRequest, "token">): Promise<ApiAnswer>;
  /** The account of a component, `<namespace>/<name>`. */
  accountOf(component: "controller" | "webhook" | "proxy"): string;
  /** Calls the API server with an account's token. */
  stolen(account: string, request: Omit<ApiRequest, "token">): Promise<ApiAnswer>;
  /** Creates a pod on the agent's node, with the hosts file that the kubelet would write. Returns the pod's UID. */
  runPod(namespace: string, name: string, metadata?: object): Promise<string>;
  /** Removes all pods of a namespace from the API server. */
  removePods(namespace: string): Promise<void>;
  /**
   * Waits until the hosts file of the neighbour's running pod `uid` has a new name of the neighbour. Returns
   * milliseconds.
   */
  follow(uid: string): Promise<number>;
  /**
   * Waits until the neighbour's new pods have a new name of the neighbour. Throws if that takes over 30 s. Returns
   * milliseconds.
   */
  spread(): Promise<number>;
  /**
   * Starts another controller, ends the only one, and waits until the new one leads. Not in the profile small, whose
   * only process is the controller, the webhook and the proxy.
   */
  restartController(): Promise<void>;
  /** Throws if a component has ended or does not answer, or if a new pod of the neighbour lacks its names. */
  check(): Promise<void>;
  /** Peak resident memory by component, in MiB. */
  peaks(): Record<string, number>;
  stop(): Promise<void>;
}

export interface StageOptions {
  /** Ordinary admissions per second during an attack. */
  readonly rate: number;
  readonly profile?: Profile;
  /** The chart's values under `config`. Each top-level key replaces that of the stage. */
  readonly config?: object;
}

/** Starts the components with the chart's memory limits. */
export async function startStage({ rate, profile = "default", config = {} }: StageOptions): Promise<Stage> {
  const cleanups: Array<() => void> = [];
  const kubelet = kubeletFiles({ after: (done) => cleanups.push(done as () => void) });
  const dnsFiles = mkdtempSync(join(tmpdir(), "switchback-attack-"));
  cleanups.push(() => rmSync(dnsFiles, { recursive: true, force: true }));
  const wideNames = new Map<string, number>();
  const records = new Map<string, string>();
  const answersOfRecords = ipv4Answers(records);
  const clusterDns = await startDnsServer((name, type) => {
    if (!name.endsWith(WIDE)) return answersOfRecords(name, type);
    wideNames.set(name, (wideNames.get(name) ?? 0) + 1);
    return type === TYPE_A ? WIDE_IPV4 : WIDE_IPV6;
  });
  cleanups.push(() => clusterDns.close());
  const policy = { verifyDns: "auto", dnsServers: [clusterDns.address] };
  const relayed = await startRelayedServer();
  const ports = [80, 443].map((port) => ({ port, upstreamPort: relayed.port, protocol: "v1" }));
  const targets = [{ name: "ingress-nginx", upstream: { host: "127.0.0.1" }, ports }];
  // The attacks add and remove thousands of names.
  const map = { vanishSeconds: 0, guardHoldSeconds: 0 };
  const podDns = { enabled: true, image: "registry.example.com/coredns:1" };
  const system = await startSystem({
    confined: true,
    values: { profile, agent: { enabled: true }, podDns, config: { map, targets, policy, ...config } },
  });
  const stop = async (): Promise<void> => {
    await system.stop();
    await relayed.stop();
    for (const done of cleanups) done();
  };
  try {
    const proxy = profile === "small" ? system.proxies[0] : await system.startProxy();
    const agent = await system.startAgent(kubelet.root);
    const dns = await system.startDns(dnsFiles);
    await system.apply(namespaceYaml(HOSTILE, "enabled") + namespaceYaml(NEIGHBOUR, "enabled"));
    await system.apply(ingress("shop", [NEIGHBOUR_NAME], { namespace: NEIGHBOUR }));
    await system.kubectl("annotate", "namespace", HOSTILE, NEIGHBOUR, "switchback.dev/on-change=live");
    await system.kubectl("-n", HOSTILE, "create", "serviceaccount", "tenant");
    await system.kubectl(
      ..."-n hostile create rolebinding tenant --clusterrole edit --serviceaccount hostile:tenant".split(" "),
    );
    await system.ready([NEIGHBOUR_NAME]);
    const [controller] = system.controllers;
    const [webhook] = system.webhooks;
    assert.ok(controller && webhook && proxy);
    const components = { controller, webhook, proxy, agent, dns };
    return await staged(system, { kubelet, relayed, wideNames, records }, components, { rate, profile, stop });
  } catch (error) {
    await stop();
    throw error;
  }
}

async function staged(
  system: System,
  { kubelet, relayed, wideNames, records }: Pick<Stage, "kubelet" | "relayed" | "wideNames" | "records">,
  components: Record<"controller" | "webhook" | "proxy" | "agent" | "dns", Replica>,
  { rate, profile, stop }: Required<Pick<StageOptions, "rate" | "profile">> & Pick<Stage, "stop">,
): Promise<Stage> {
  const token = await system.cluster.tokenFor(`${HOSTILE}/tenant`);
  const [ca = ""] = await system.bundles();
  const relay = { address: components.proxy.address, port: await relayPort(system) };
  let spreads = 0;
  const newPod = async (): Promise<Pod> => {
    const path = `/api/v1/namespaces/${NEIGHBOUR}/pods?dryRun=All`;
    const { status, body } = await system.cluster.call({ method: "POST", path, body: podObject(NEIGHBOUR, "one") });
    assert.equal(status, 201, JSON.stringify(body));
    return body as Pod;
  };
  const newName = async (): Promise<string> => {
    spreads += 1;
    const name = `spread-${spreads}.neighbour.example.com`;
    const path = `/apis/networking.k8s.io/v1/namespaces/${NEIGHBOUR}/ingresses`;
    const body = ingress(`spread-${spreads}`, [name], { namespace: NEIGHBOUR }).replace("---", "");
    const { status, body: answer } = await system.cluster.call({ method: "POST", path, body });
    assert.equal(status, 201, JSON.stringify(answer));
    return name;
  };
  return {
    system,
    profile,
    kubelet,
    relay,
    relayed,
    wideNames,
    records,
    async runPod(namespace, name, more = {}) {
      const pod = podObject(namespace, name) as { metadata: object; spec: object };
      const path = `/api/v1/namespaces/${namespace}/pods`;
      const object = { ...pod, metadata: { ...pod.metadata, ...more }, spec: { ...pod.spec, nodeName: NODE } };
      const { status, body } = await system.cluster.call({ method: "POST", path, body: object });
      assert.equal(status, 201, JSON.stringify(body));
      const { metadata, spec } = body as { metadata: { uid: string }; spec: Pod["spec"] };
      kubelet.write(metadata.uid, aliasesText(spec.hostAliases));
      return metadata.uid;
    },
    async removePods(namespace) {
      const path = `/api/v1/namespaces/${namespace}/pods?gracePeriodSeconds=0`;
      const { status } = await system.cluster.call({ method: "DELETE", path });
      assert.equal(status, 200);
    },
    async follow(uid) {
      const started = performance.now();
      const name = await newName();
      await until(`${name} in the running pod`, () => hasName(readFileSync(kubelet.path(uid), "latin1"), name));
      return performance.now() - started;
    },
    neighbours: new Neighbours({
      rate,
      port: components.webhook.port,
      ca: Buffer.from(ca, "base64").toString("utf8"),
      serverName: `switchback-webhook.${NAMESPACE}.svc`,
      review: reviewOf(podObject(NEIGHBOUR, "ordinary")),
      name: NEIGHBOUR_NAME,
    }),
    tenant: (request) => system.cluster.call({ token, ...request }),
    accountOf: (component) => `${NAMESPACE}/switchback-${system.process(component)}`,
    stolen: async (account, request) =>
      system.cluster.call({ token: await system.cluster.tokenFor(account), ...request }),
    async spread() {
      const started = performance.now();
      const name = await newName();
      await until(`${name} in a new pod`, async () => mapped(await newPod()).includes(name));
      return performance.now() - started;
    },
    async restartController() {
      assert.equal(profile, "default");
      const before = components.controller;
      components.controller = await system.start("controller");
      await system.end(before, "SIGTERM");
      await system.leader();
    },
    async check() {
      for (const [name, { process: child, page }] of Object.entries(components)) {
        assert.equal(child.exited, undefined, `${name} has ended (${child.exited}): ${await child.logTail()}`);
        await until(`${name} to answer`, async () => (await page("/healthz")).status === 200, HEALTH_MS);
      }
      assert.ok(mapped(await newPod()).includes(NEIGHBOUR_NAME), "the neighbour's new pod lacks its own name");
    },
    peaks: () =>
      Object.fromEntries(
        Object.entries(components)
          .filter(([, { process: child }]) => child.exited === undefined)
          .map(([name, { process: child }]) => [name, Math.round(peakMemory(child.pid) / 1024 / 1024)]),
      ),
    stop,
  };
}

/** The port on which every proxy listens for port 80 of the target. */
async function relayPort(system: System): Promise<number> {
  const [target] = targetsIn(await system.configMaps()).targets;
  const port = target?.ports.find((each) => each.port === 80)?.listenPort;
  assert.ok(port);
  return port;
}

/** The review that the API server sends when a pod is created. */
export function reviewOf(object: object, uid = "00000000-0000-4000-8000-000000000000"): object {
  return {
    apiVersion: "admission.k8s.io/v1",
    kind: "AdmissionReview",
    request: {
      uid,
      kind: { group: "", version: "v1", kind: "Pod" },
      resource: { group: "", version: "v1", resource: "pods" },
      namespace: (object as { metadata: { namespace: string } }).metadata.namespace,
      operation: "CREATE",
      object,
      dryRun: false,
    },
  };
}
