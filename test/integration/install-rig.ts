import assert from "node:assert/strict";
import { after, before } from "node:test";
import { fileURLToPath } from "node:url";
import { type ControlPlane, startControlPlane } from "../cluster/controlplane.ts";
import type { Rendered } from "./rendered.ts";

// The chart and install.yaml on a real API server, as a user applies them.

export const TOP = fileURLToPath(new URL("../..", import.meta.url));
export const INSTALL = `${TOP}manifests/install.yaml`;
export const NAMESPACE = "switchback-system";
export const IN_NAMESPACE = `/api/v1/namespaces/${NAMESPACE}`;
export const CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/switchback-webhook";

/** The control plane of the test file. */
export let cluster: ControlPlane;

/** Starts a control plane without Switchback for a test file. */
export function useControlPlane(): void {
  before(async () => {
    cluster = await startControlPlane();
  });
  after(() => cluster.stop());
}

export async function kubectl(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await cluster.kubectl(...args);
  assert.equal(code, 0, stderr);
  return stdout + stderr;
}

export async function helm(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await cluster.helm(...args);
  assert.equal(code, 0, stderr);
  return stdout + stderr;
}

export const tokens = new Map<string, string>();
export async function tokenOf(component: string): Promise<string> {
  const token = tokens.get(component) ?? (await cluster.tokenFor(`${NAMESPACE}/switchback-${component}`));
  tokens.set(component, token);
  return token;
}

/** Server-side apply with the rights of a component's ServiceAccount. Returns the status. */
export async function applyAs(component: string, path: string, body: object): Promise<number> {
  return (await applyWith(await tokenOf(component), path, body)).status;
}

async function applyWith(token: string, path: string, body: object, dryRun = false) {
  return await cluster.call({
    method: "PATCH",
    path: `${path}?fieldManager=switchback-test&force=true${dryRun ? "&dryRun=All" : ""}`,
    contentType: "application/apply-patch+yaml",
    body: JSON.stringify(body),
    token,
  });
}

/** A front Service as the controller applies it for the target of that name. */
export function frontService(name: string) {
  const target = name.replace("switchback-", "");
  const labels = {
    "app.kubernetes.io/name": "switchback",
    "app.kubernetes.io/component": "front",
    "switchback.dev/target": target,
  };
  const selector = { "app.kubernetes.io/name": "switchback", "app.kubernetes.io/component": "proxy" };
  const metadata = { namespace: NAMESPACE, name, labels };
  const ports = [{ name: "tcp-80", port: 80 }];
  return { apiVersion: "v1", kind: "Service", metadata, spec: { ipFamilyPolicy: "PreferDualStack", selector, ports } };
}

export async function bundles(): Promise<(string | undefined)[]> {
  const { body } = await cluster.call({ path: CONFIGURATION });
  return (body as Rendered).webhooks.map(({ clientConfig }: Rendered) => clientConfig.caBundle);
}

/** Writes `caBundle` of every entry and nothing else of them, as the controller does. */
export async function writeBundle(): Promise<string> {
  const caBundle = Buffer.from(cluster.ca.cert).toString("base64");
  const names = ["namespace", "pod", "reachable"];
  const webhooks = names.map((name) => ({ name: `${name}.switchback.dev`, clientConfig: { caBundle } }));
  const metadata = { name: "switchback-webhook" };
  const object = {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "MutatingWebhookConfiguration",
    metadata,
    webhooks,
  };
  assert.equal(await applyAs("controller", CONFIGURATION, object), 200);
  return caBundle;
}
