import assert from "node:assert/strict";
import { EXPERIMENTAL_GROUP, GATEWAY_GROUP } from "#controller/sources/gateway/view.ts";
import { gatewayApiDefinitions } from "../cluster/addons/definitions.ts";
import type { System } from "./system.ts";

export const PLURALS = {
  Gateway: "gateways",
  ListenerSet: "listenersets",
  HTTPRoute: "httproutes",
  GRPCRoute: "grpcroutes",
  TLSRoute: "tlsroutes",
} as const;

/** The names of the definitions that Switchback reads. */
export const CRDS = Object.values(PLURALS).map((plural) => `${plural}.${GATEWAY_GROUP}`);

/** Installs the definitions, and waits until objects can be created. */
export async function installGatewayApi(system: System): Promise<void> {
  const definitions = await gatewayApiDefinitions([...Object.values(PLURALS), "gatewayclasses"]);
  const args = ["apply", "--server-side", "-f", "-"];
  const { code, stderr } = await system.cluster.tool("kubectl", args, { input: definitions });
  assert.equal(code, 0, stderr);
  await system.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", ...CRDS);
}

/**
 * Installs the definition of XListenerSet, which Gateway API had until version 1.4 (config/crd/experimental). The API
 * server keeps all fields. Without a subresource, `kubectl apply` writes the status, too.
 */
export async function installXListenerSets(system: System): Promise<void> {
  const names = {
    plural: "xlistenersets",
    singular: "xlistenerset",
    kind: "XListenerSet",
    listKind: "XListenerSetList",
  };
  const schema = { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } };
  const versions = [{ name: "v1alpha1", served: true, storage: true, schema }];
  const name = `${names.plural}.${EXPERIMENTAL_GROUP}`;
  await system.apply(
    JSON.stringify({
      apiVersion: "apiextensions.k8s.io/v1",
      kind: "CustomResourceDefinition",
      metadata: { name },
      spec: { group: EXPERIMENTAL_GROUP, scope: "Namespaced", names, versions },
    }),
  );
  await system.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", name);
}

type Kind = keyof typeof PLURALS;
const API_VERSION = `${GATEWAY_GROUP}/v1`;

/** A condition as a controller writes it. */
export function condition(type: string, status: string) {
  return { type, status, reason: "Test", message: "", lastTransitionTime: "2026-01-01T00:00:00Z" };
}

export const ACCEPTED = [condition("Accepted", "True")];

/**
 * Gateways (in the namespace `infra`, of the class `edge`), ListenerSets and routes (in `shop`), with the status that
 * their controller gives them.
 */
export class GatewayApi {
  readonly #system: System;

  constructor(system: System) {
    this.#system = system;
  }

  /** Creates an object or replaces its spec, and then replaces its status. */
  async put(kind: Kind, namespace: string, name: string, spec: object, status?: object): Promise<void> {
    const path = `/apis/${API_VERSION}/namespaces/${namespace}/${PLURALS[kind]}/${name}`;
    const call = async (subresource: string, body: object) => {
      const { status: code, body: answer } = await this.#system.cluster.call({
        method: "PATCH",
        path: `${path}${subresource}?fieldManager=test&force=true`,
        contentType: "application/apply-patch+yaml",
        body: { apiVersion: API_VERSION, kind, metadata: { namespace, name }, ...body },
      });
      assert.ok(code < 300, `${code} ${JSON.stringify(answer)}`);
    };
    await call("", { spec });
    if (status !== undefined) await call("/status", { status });
  }

  /** `spec` may have further fields. */
  async gateway(name: string, listeners: object[], spec: object = {}): Promise<void> {
    await this.put(
      "Gateway",
      "infra",
      name,
      { gatewayClassName: "edge", listeners, ...spec },
      { conditions: ACCEPTED },
    );
  }

  /** A ListenerSet of a Gateway. Without `status`, it has the status that the API server gives it. */
  async listenerSet(name: string, gateway: string, listeners: object[], status?: object): Promise<void> {
    const parentRef = { group: GATEWAY_GROUP, kind: "Gateway", namespace: "infra", name: gateway };
    await this.put("ListenerSet", "shop", name, { parentRef, listeners }, status);
  }

  async route(
    kind: Kind,
    name: string,
    parent: string,
    hostnames: string[] | undefined,
    parts: { namespace?: string; accepted?: object[]; parentRef?: object } = {},
  ): Promise<void> {
    const { namespace = "shop", accepted = ACCEPTED } = parts;
    const parentRef = {
      group: GATEWAY_GROUP,
      kind: "Gateway",
      namespace: "infra",
      name: parent,
      ...parts.parentRef,
    };
    const rules = kind === "TLSRoute" ? [{ backendRefs: [{ name: "b", port: 443 }] }] : [];
    const spec = { parentRefs: [parentRef], ...(hostnames && { hostnames }), ...(rules.length > 0 && { rules }) };
    await this.put(kind, namespace, name, spec, {
      parents: [{ parentRef, controllerName: "example.com/c", conditions: accepted }],
    });
  }
}
