import assert from "node:assert/strict";
import { GATEWAY_GROUP } from "../../controller/sources/gateway/view.ts";
import { gatewayApiDefinitions } from "../cluster/addons/gateway-api.ts";
import type { System } from "./system.ts";

export const PLURALS = {
  Gateway: "gateways",
  HTTPRoute: "httproutes",
  GRPCRoute: "grpcroutes",
  TLSRoute: "tlsroutes",
} as const;

/** The names of the definitions that Switchback reads. */
export const CRDS = Object.values(PLURALS).map((plural) => `${plural}.${GATEWAY_GROUP}`);

/** Installs them, TLSRoute from the experimental channel, and waits until objects can be made. */
export async function installGatewayApi(system: System): Promise<void> {
  const definitions = [
    await gatewayApiDefinitions("standard", ["gateways", "httproutes", "grpcroutes"]),
    await gatewayApiDefinitions("experimental", ["tlsroutes"]),
  ];
  const args = ["apply", "--server-side", "-f", "-"];
  const { code, stderr } = await system.cluster.tool("kubectl", args, { input: definitions.join("---\n") });
  assert.equal(code, 0, stderr);
  await system.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", ...CRDS);
}

type Kind = keyof typeof PLURALS;
const VERSION: Readonly<Record<Kind, string>> = {
  Gateway: "v1",
  HTTPRoute: "v1",
  GRPCRoute: "v1",
  TLSRoute: "v1alpha3",
};

/** A condition as a controller writes it. */
export function condition(type: string, status: string) {
  return { type, status, reason: "Test", message: "", lastTransitionTime: "2026-01-01T00:00:00Z" };
}

export const ACCEPTED = [condition("Accepted", "True")];

/** Gateways (in the namespace `infra`, of the class `edge`) and routes (in `shop`), with the status that their controller gives them. */
export class GatewayApi {
  readonly #system: System;

  constructor(system: System) {
    this.#system = system;
  }

  /** Makes an object, or replaces its spec, and then its status. */
  async put(kind: Kind, namespace: string, name: string, spec: object, status?: object): Promise<void> {
    const path = `/apis/${GATEWAY_GROUP}/${VERSION[kind]}/namespaces/${namespace}/${PLURALS[kind]}/${name}`;
    const apiVersion = `${GATEWAY_GROUP}/${VERSION[kind]}`;
    const call = async (subresource: string, body: object) => {
      const { status: code, body: answer } = await this.#system.cluster.call({
        method: "PATCH",
        path: `${path}${subresource}?fieldManager=test&force=true`,
        contentType: "application/apply-patch+yaml",
        body: { apiVersion, kind, metadata: { namespace, name }, ...body },
      });
      assert.ok(code < 300, `${code} ${JSON.stringify(answer)}`);
    };
    await call("", { spec });
    if (status !== undefined) await call("/status", { status });
  }

  async gateway(name: string, listeners: object[], accepted = ACCEPTED): Promise<void> {
    await this.put("Gateway", "infra", name, { gatewayClassName: "edge", listeners }, { conditions: accepted });
  }

  async route(
    kind: Kind,
    name: string,
    parent: string,
    hostnames: string[] | undefined,
    parts: { namespace?: string; accepted?: object[] } = {},
  ): Promise<void> {
    const { namespace = "shop", accepted = ACCEPTED } = parts;
    const parentRef = { group: GATEWAY_GROUP, kind: "Gateway", namespace: "infra", name: parent };
    const rules = kind === "TLSRoute" ? [{ backendRefs: [{ name: "b", port: 443 }] }] : [];
    const spec = { parentRefs: [parentRef], ...(hostnames && { hostnames }), ...(rules.length > 0 && { rules }) };
    await this.put(kind, namespace, name, spec, {
      parents: [{ parentRef, controllerName: "example.com/c", conditions: accepted }],
    });
  }
}
