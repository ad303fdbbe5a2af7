import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseAllDocuments } from "yaml";
import { servingNames } from "#certs/issue.ts";
import { CertManager, type CertStatus } from "#certs/manager.ts";
import type { SecretName } from "#certs/objects.ts";
import { type ServingWatch, watchServingCertificate } from "#certs/serving.ts";
import { secretSource } from "#certs/serving-sources.ts";
import { parseConfig } from "#lib/config/parse.ts";
import { type ConnectedClient, connect } from "#lib/kube/connect.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { type ControlPlane, startControlPlane } from "../cluster/controlplane.ts";

// install.yaml on a real API server. Certificate managers and webhook replicas have the rights of their
// ServiceAccounts. The creation of a pod FAILS when the API server cannot call the webhook, so that no failed
// admission goes unnoticed.

export const NAMESPACE = "switchback-system";
export const CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/switchback-webhook";
const INSTALL = fileURLToPath(new URL("../../manifests/install.yaml", import.meta.url));

/** Number of admissions after a change was seen, because a failure may come a moment later. */
const AFTERWARDS = 30;

export interface WebhookEntry {
  name: string;
  clientConfig: { caBundle?: string; service: object };
  failurePolicy: string;
}

export interface Configuration {
  metadata: { resourceVersion: string; managedFields?: { manager: string; fieldsV1: object }[] };
  webhooks: WebhookEntry[];
}

/** Polls for at most 20 s. */
export async function until(condition: () => boolean | Promise<boolean>, what: string): Promise<void> {
  for (const deadline = Date.now() + 20_000; Date.now() < deadline; ) {
    if (await condition()) return;
    await delay(25);
  }
  assert.fail(`not seen: ${what}`);
}

export class CertsCluster {
  readonly cluster: ControlPlane;
  readonly #clients: ConnectedClient[] = [];
  readonly #stops: (() => Promise<unknown>)[] = [];

  constructor(cluster: ControlPlane) {
    this.cluster = cluster;
  }

  async kubectl(args: string[], input?: object): Promise<string> {
    const options = input === undefined ? {} : { input: JSON.stringify(input) };
    const { code, stdout, stderr } = await this.cluster.tool("kubectl", args, options);
    assert.equal(code, 0, stderr);
    return stdout;
  }

  /** Applies our install as Helm would, but every entry fails closed. `change` edits the entries. */
  async install(change: (entries: WebhookEntry[]) => WebhookEntry[] = (entries) => entries): Promise<void> {
    const documents = parseAllDocuments(readFileSync(INSTALL, "utf8")).map((document) => document.toJS());
    const objects = documents.filter((object) => object !== null) as ({ kind: string } & Configuration)[];
    for (const object of objects.filter(({ kind }) => kind === "MutatingWebhookConfiguration")) {
      object.webhooks = change(object.webhooks).map((entry) => ({ ...entry, failurePolicy: "Fail" }));
    }
    const list = { apiVersion: "v1", kind: "List", items: objects.filter(({ kind }) => kind !== "Deployment") };
    await this.kubectl(["apply", "--server-side", "--field-manager=helm", "-f", "-"], list);
  }

  /** A client with the rights of a component. */
  async clientOf(component: "controller" | "webhook"): Promise<ConnectedClient> {
    const token = await this.cluster.tokenFor(`${NAMESPACE}/switchback-${component}`);
    const client = await connect({ kubeconfig: await this.cluster.kubeconfigFor({ token }) });
    this.#clients.push(client);
    return client;
  }

  /** Starts a leader's certificate manager, as the controller does. */
  async manage(certs: object = {}): Promise<{ status(): CertStatus; stop(): Promise<void> }> {
    const client = await this.clientOf("controller");
    const stop = new AbortController();
    const manager = new CertManager({
      config: parseConfig({ certs }).certs,
      namespace: NAMESPACE,
      names: servingNames("switchback-webhook", NAMESPACE, "cluster.local"),
      client,
      now: Date.now,
      log: silentLogger,
      signal: stop.signal,
    });
    const end = async () => {
      stop.abort();
      await manager.done;
    };
    this.#stops.push(end);
    return { status: () => manager.status(), stop: end };
  }

  /** Starts a webhook replica that allows everything. Only its certificate handling is the product's. */
  async serve(): Promise<{ port: number; watch: ServingWatch; calls: () => number }> {
    let calls = 0;
    const server = createServer(async (request, response) => {
      const review = (await json(request)) as { request: { uid: string } };
      calls += 1;
      response.setHeader("content-type", "application/json");
      const answer = { uid: review.request.uid, allowed: true };
      response.end(JSON.stringify({ apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview", response: answer }));
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    // Each admission needs a new handshake: a kept connection would hide the certificate's effect.
    server.keepAliveTimeout = 1;
    server.on("request", (_, response) => response.setHeader("connection", "close"));
    const client = await this.clientOf("webhook");
    const source = secretSource(client, NAMESPACE, silentLogger);
    const watch = watchServingCertificate(source, (pair) => server.setSecureContext(pair), {
      now: Date.now,
      log: silentLogger,
    });
    this.#stops.push(async () => {
      await watch.stop();
      server.closeAllConnections();
      server.close();
    });
    return { port: (server.address() as AddressInfo).port, watch, calls: () => calls };
  }

  /** Creates a pod of an opted-in namespace as a dry run. Returns "" or the API server's message. */
  async admit(): Promise<string> {
    const pod = {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "p", namespace: "shop" },
      spec: { containers: [{ name: "c", image: "example.com/c:1" }] },
    };
    const path = "/api/v1/namespaces/shop/pods?dryRun=All";
    const { status, body } = await this.cluster.call({ method: "POST", path, body: pod });
    return status === 201 ? "" : `${status} ${(body as { message: string }).message}`;
  }

  /**
   * Admits pods without a pause until `stop` is called, then AFTERWARDS more. `stop` resolves to the messages of
   * those that failed.
   */
  admissions(): { stop(): Promise<string[]> } {
    let left = Number.POSITIVE_INFINITY;
    const failures: string[] = [];
    const loop = (async () => {
      for (; left > 0; left -= 1) {
        const failure = await this.admit();
        if (failure !== "") failures.push(failure);
        await delay(5);
      }
    })();
    return {
      async stop() {
        left = AFTERWARDS;
        await loop;
        return failures;
      },
    };
  }

  async configuration(): Promise<Configuration | undefined> {
    const { status, body } = await this.cluster.call({ path: CONFIGURATION });
    return status === 404 ? undefined : (body as Configuration);
  }

  /** The caBundle of each entry, as PEM text. */
  async bundles(): Promise<string[]> {
    const { webhooks = [] } = (await this.configuration()) ?? {};
    return webhooks.map(({ clientConfig }) => Buffer.from(clientConfig.caBundle ?? "", "base64").toString());
  }

  /** A Secret's data as text, or undefined if the Secret is missing. */
  async secret(name: SecretName): Promise<Record<string, string> | undefined> {
    const { status, body } = await this.cluster.call({ path: `/api/v1/namespaces/${NAMESPACE}/secrets/${name}` });
    if (status === 404) return undefined;
    const { data } = body as { data: Record<string, string> };
    return Object.fromEntries(
      Object.entries(data).map(([key, value]) => [key, Buffer.from(value, "base64").toString()]),
    );
  }

  /** Stops managers and replicas, but not the cluster. */
  async quiet(): Promise<void> {
    await Promise.all(this.#stops.splice(0).map((stop) => stop()));
    for (const client of this.#clients.splice(0)) client.close();
  }

  async stop(): Promise<void> {
    await this.quiet();
    await this.cluster.stop();
  }
}

/** Starts a control plane with our install and an opted-in namespace `shop`. */
export async function startCertsCluster(): Promise<CertsCluster> {
  const started = new CertsCluster(await startControlPlane({ controllerManager: false }));
  await started.install();
  const labels = { "switchback.dev/inject": "enabled" };
  await started.kubectl(["apply", "-f", "-"], {
    apiVersion: "v1",
    kind: "List",
    items: [
      { apiVersion: "v1", kind: "Namespace", metadata: { name: "shop", labels } },
      { apiVersion: "v1", kind: "ServiceAccount", metadata: { namespace: "shop", name: "default" } },
    ],
  });
  return started;
}
