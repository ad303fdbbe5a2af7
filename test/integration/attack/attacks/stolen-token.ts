import assert from "node:assert/strict";
import { OBJECTS } from "../../../published.ts";
import { AGENTS, NAMESPACE } from "../../system.ts";
import type { Attack } from "../attack.ts";
import type { Stage } from "../stage.ts";

const WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/switchback-webhook";
const SERVICES = `/api/v1/namespaces/${NAMESPACE}/services`;
export const MERGE = "application/merge-patch+json";
const JSON_PATCH = "application/json-patch+json";

interface Try {
  readonly what: string;
  readonly method: string;
  readonly path: string;
  readonly body: unknown;
  readonly contentType?: string;
}

const patch = (what: string, ...operations: object[]): Try => ({
  what,
  method: "PATCH",
  path: WEBHOOKS,
  body: JSON.stringify(operations),
  contentType: JSON_PATCH,
});

const service = (what: string, spec: object, metadata: object = {}): Try => ({
  what,
  method: "POST",
  path: SERVICES,
  body: { apiVersion: "v1", kind: "Service", metadata: { name: "forged", ...metadata }, spec },
});

const port = { ports: [{ port: 443 }] };
const CONTROLLER_TRIES: readonly Try[] = [
  patch("a webhook of another address", {
    op: "replace",
    path: "/webhooks/0/clientConfig",
    value: { url: "https://192.0.2.9/" },
  }),
  patch("rules for everything", { op: "replace", path: "/webhooks/0/rules/0/resources", value: ["*/*"] }),
  patch("failurePolicy Fail", { op: "replace", path: "/webhooks/0/failurePolicy", value: "Fail" }),
  patch("a third webhook", { op: "copy", from: "/webhooks/0", path: "/webhooks/-" }),
  { what: "deletion of the configuration", method: "DELETE", path: WEBHOOKS, body: undefined },
  service("a Service with externalIPs", { ...port, externalIPs: ["192.0.2.1"], selector: { a: "b" } }),
  service("an ExternalName", { type: "ExternalName", externalName: "example.com" }),
  service("a LoadBalancer", { ...port, type: "LoadBalancer", selector: { a: "b" } }),
  service("a Service without a selector", port),
  {
    what: "taking over the webhook's Service",
    method: "PATCH",
    path: `${SERVICES}/switchback-webhook`,
    body: { spec: { selector: { a: "b" } } },
    contentType: MERGE,
  },
  {
    what: "an Event of the kubelet's",
    method: "POST",
    path: "/apis/events.k8s.io/v1/namespaces/kube-system/events",
    body: {
      apiVersion: "events.k8s.io/v1",
      kind: "Event",
      metadata: { namespace: "kube-system", name: "forged", finalizers: ["example.com/never"] },
      eventTime: "2026-01-01T00:00:00.000000Z",
      type: "Warning",
      reason: "Evicted",
      action: "Evict",
      reportingController: "kubelet",
      reportingInstance: "node-1",
      regarding: { apiVersion: "v1", kind: "Pod", namespace: "kube-system", name: "p" },
    },
  },
];

/** Requests that no component makes. They would give the component's rights, or more rights, to somebody else. */
export const NOBODYS_TRIES: readonly Try[] = [
  { what: "a list of Secrets", method: "GET", path: `/api/v1/namespaces/${NAMESPACE}/secrets`, body: undefined },
  { what: "Secrets elsewhere", method: "GET", path: "/api/v1/namespaces/kube-system/secrets", body: undefined },
  {
    what: "a pod with the same account",
    method: "POST",
    path: `/api/v1/namespaces/${NAMESPACE}/pods`,
    body: {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "forged" },
      spec: { containers: [{ name: "a", image: "a" }] },
    },
  },
  {
    what: "a token",
    method: "POST",
    path: `/api/v1/namespaces/${NAMESPACE}/serviceaccounts/default/token`,
    body: { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec: {} },
  },
  {
    what: "a binding to cluster-admin",
    method: "POST",
    path: "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    body: {
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "ClusterRoleBinding",
      metadata: { name: "forged" },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "cluster-admin" },
    },
  },
  {
    what: "the end of the policies",
    method: "DELETE",
    path: "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/switchback-own-objects",
    body: undefined,
  },
];

export const MAP_TRY: Try = {
  what: "the map",
  method: "DELETE",
  path: `/api/v1/namespaces/${NAMESPACE}/configmaps/${OBJECTS.map}`,
  body: undefined,
};

export const STOLEN_TOKEN_ATTACKS: readonly Attack[] = [
  {
    name: "more rights by the controller's token",
    by: "stolen token",
    run: (stage) => denied(stage, stage.accountOf("controller"), NOBODYS_TRIES),
  },
  {
    name: "controller's token",
    by: "stolen token",
    run: (stage) => denied(stage, stage.accountOf("controller"), CONTROLLER_TRIES),
  },
  {
    name: "agent's token without a pod",
    by: "stolen token",
    run: (stage) =>
      denied(stage, `${AGENTS}/switchback-agent`, [
        {
          what: "the Lease of another node",
          method: "POST",
          path: `/apis/coordination.k8s.io/v1/namespaces/${AGENTS}/leases`,
          body: { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata: { name: "other-node" }, spec: {} },
        },
      ]),
  },
  {
    name: "proxy's and webhook's tokens",
    by: "stolen token",
    // In the profile small, proxy and webhook use the controller's account.
    profiles: ["default"],
    run: async (stage) => {
      const tries = [
        {
          what: "a Secret",
          method: "GET",
          path: `/api/v1/namespaces/${NAMESPACE}/secrets/${OBJECTS.ca}`,
          body: undefined,
        },
        { what: "all pods", method: "GET", path: "/api/v1/pods", body: undefined },
        MAP_TRY,
      ];
      await denied(stage, `${NAMESPACE}/switchback-proxy`, tries);
      return await denied(stage, `${NAMESPACE}/switchback-webhook`, tries);
    },
  },
];

/** Throws unless the API server refuses every try. */
export async function denied(stage: Stage, account: string, tries: readonly Try[]) {
  for (const { what, ...request } of tries) {
    const { status } = await stage.stolen(account, request);
    assert.ok(status === 403 || status === 422, `${what} by ${account}: ${status}`);
  }
  return { tried: tries.map(({ what }) => what).join(", "), outcome: "denied" };
}
