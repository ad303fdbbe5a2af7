import { once } from "node:events";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { workload } from "./objects.ts";
import { NAMESPACE, type System, until } from "./system.ts";

const NAME = "competing-writer";
const CONTROLLER = `system:serviceaccount:${NAMESPACE}:switchback-controller`;

interface Review {
  readonly request: { readonly uid: string; readonly name: string; readonly userInfo: { readonly username: string } };
}

/** A writer that changes Deployments of a namespace at the same moment as our controller. */
export interface CompetingWriter {
  /** Changes of the controller that collided with a change of the writer. */
  readonly met: number;
  stop(): Promise<void>;
}

/**
 * Starts an admission webhook, which the API server calls after it has read the object and before it writes it. The
 * webhook changes the object meanwhile, so that the controller's change is a conflict, `times` times.
 */
export async function startCompetingWriter(system: System, namespace: string, times: number): Promise<CompetingWriter> {
  let asked = 0;
  let met = 0;
  const annotate = async (deployment: string, note: string) => {
    const path = `/apis/apps/v1/namespaces/${namespace}/deployments/${deployment}`;
    const body = { metadata: { annotations: { "example.com/changed": note } } };
    await system.cluster.call({ method: "PATCH", path, contentType: "application/merge-patch+json", body });
  };
  const server = createServer(system.cluster.ca.serving([`${NAME}.${namespace}.svc`]), async (request, response) => {
    const { uid, name, userInfo } = ((await json(request)) as Review).request;
    asked += 1;
    if (userInfo.username === CONTROLLER && met < times) {
      met += 1;
      await annotate(name, `${met}`);
    }
    response.setHeader("content-type", "application/json");
    const answer = { uid, allowed: true };
    response.end(JSON.stringify({ apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview", response: answer }));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  system.cluster.routeService(`${namespace}/${NAME}`, 443, [(server.address() as AddressInfo).port]);
  await system.apply(objects(namespace, system.cluster.ca.cert));
  await system.apply(workload("Deployment", "probe", namespace, { spec: { replicas: 0 } }));
  // The API server needs a moment to notice the webhook.
  await until("the API server to ask the writer", async () => {
    await annotate("probe", `${Math.random()}`);
    return asked > 0;
  });
  await system.kubectl("-n", namespace, "delete", "deployment", "probe");
  return {
    get met() {
      return met;
    },
    async stop() {
      await system.kubectl("delete", "validatingwebhookconfiguration", NAME);
      server.close();
      server.closeAllConnections();
    },
  };
}

function objects(namespace: string, ca: string): string {
  const service = {
    apiVersion: "v1",
    kind: "Service",
    metadata: { namespace, name: NAME },
    spec: { ports: [{ port: 443 }], selector: { app: NAME } },
  };
  const webhook = {
    name: "competing-writer.example.com",
    admissionReviewVersions: ["v1"],
    sideEffects: "None",
    failurePolicy: "Ignore",
    clientConfig: { service: { namespace, name: NAME }, caBundle: Buffer.from(ca).toString("base64") },
    namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": namespace } },
    rules: [{ apiGroups: ["apps"], apiVersions: ["v1"], operations: ["UPDATE"], resources: ["deployments"] }],
  };
  const configuration = {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "ValidatingWebhookConfiguration",
    metadata: { name: NAME },
    webhooks: [webhook],
  };
  return `${JSON.stringify(service)}\n---\n${JSON.stringify(configuration)}\n`;
}
