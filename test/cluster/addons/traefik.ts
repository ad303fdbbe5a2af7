import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { binary } from "../binaries.ts";
import type { Cluster, KubeObject } from "../cluster.ts";
import { IMAGES } from "../images.ts";
import { GATEWAY_API, releaseOf } from "../modules.ts";
import { FAMILIES, STACK } from "../node/layout.ts";
import { moduleFolder } from "../releases.ts";
import { gatewayApiFolder } from "./definitions.ts";
import { type LoadBalancer, PLAIN, publishAddress, TRAEFIK } from "./load-balancers.ts";
import { deployment, namespace, service, serviceAccount } from "./objects.ts";

/** Ports of the entry points. A Gateway's listener uses the same numbers. */
export const PORTS = { web: 8000, websecure: 8443, ping: 8080 };

/**
 * Installs Traefik behind a LoadBalancer Service, for the IngressClass `traefik` and for Gateway API. It accepts a
 * PROXY header from any client, and also serves clients without a header. Its access log shows the address that
 * arrived. Its Service has one family, although its load balancer may have two.
 */
export async function install(cluster: Cluster): Promise<void> {
  await binary("traefik");
  await installGatewayApi(cluster);
  const { namespace: ns, service: name, nodePorts } = TRAEFIK;
  const ranges = FAMILIES.flatMap(({ nodeRange, podRange }) => [nodeRange, podRange]);
  const anyone = `proxyProtocol.trustedIPs=${ranges.join()}`;
  const args = [`--entrypoints.web.${anyone}`, `--entrypoints.websecure.${anyone}`];
  await cluster.apply(
    namespace(ns),
    ...traefik({ namespace: ns, name, ingressClass: "traefik", args: [...args, ...gatewayArgs(ns, name)] }),
    loadBalancerService(ns, name, nodePorts),
    {
      apiVersion: "gateway.networking.k8s.io/v1",
      kind: "GatewayClass",
      metadata: { name: "traefik" },
      spec: { controllerName: "traefik.io/gateway-controller" },
    },
  );
  await publishAddress(cluster, TRAEFIK);
  await cluster.rolledOut(ns, `deployment/${name}`);
}

/** Traefik's Gateways get the addresses of Traefik's own Service. */
function gatewayArgs(ns: string, name: string): string[] {
  const gateway = "--providers.kubernetesgateway";
  return [
    `${gateway}=true`,
    `${gateway}.statusaddress.service.namespace=${ns}`,
    `${gateway}.statusaddress.service.name=${name}`,
  ];
}

/** Installs another Traefik for the class `plain`. Its load balancer adds no header, and pods cannot reach it. */
export async function installPlain(cluster: Cluster): Promise<void> {
  const { namespace: ns, service: name, nodePorts } = PLAIN;
  // In a dual-stack cluster, IPv6 comes first here. Names lead to the ClusterIPs in this order.
  const families = {
    ipFamilyPolicy: "PreferDualStack",
    ...(STACK === "dual-stack" && { ipFamilies: ["IPv6", "IPv4"] }),
  };
  await cluster.apply(
    namespace(ns),
    ...traefik({ namespace: ns, name, ingressClass: "plain", args: [] }),
    loadBalancerService(ns, name, nodePorts, families),
  );
  await publishAddress(cluster, PLAIN, "Proxy");
  await cluster.rolledOut(ns, `deployment/${name}`);
}

function loadBalancerService(
  ns: string,
  name: string,
  nodePorts: LoadBalancer["nodePorts"],
  families: object = {},
): KubeObject {
  const ports = [
    { name: "web", port: 80, targetPort: "web", nodePort: nodePorts.http },
    { name: "websecure", port: 443, targetPort: "websecure", nodePort: nodePorts.https },
  ];
  return service(ns, name, { app: name, type: "LoadBalancer", ports, ...families });
}

/** Installs the standard channel's definitions in the version that Traefik's go.mod requires. */
async function installGatewayApi(cluster: Cluster): Promise<void> {
  const goMod = await readFile(join(await moduleFolder(releaseOf("traefik")), "go.mod"), "utf8");
  const [, version = ""] = new RegExp(`^\\t${GATEWAY_API.module} (\\S+)`, "m").exec(goMod) ?? [];
  const folder = await gatewayApiFolder({ ...GATEWAY_API, version });
  await cluster.kubectl("apply", "--server-side", "-f", folder);
}

/** A Traefik for one IngressClass: the class, the rights and the Deployment, but no Service. */
export function traefik(options: {
  namespace: string;
  name: string;
  ingressClass: string;
  args: string[];
}): KubeObject[] {
  const { namespace: ns, name, ingressClass } = options;
  const role = `traefik-${ingressClass}`;
  const args = [
    `--entrypoints.web.address=:${PORTS.web}`,
    `--entrypoints.websecure.address=:${PORTS.websecure}`,
    "--entrypoints.websecure.http.tls=true",
    `--entrypoints.ping.address=:${PORTS.ping}`,
    "--ping.entrypoint=ping",
    "--providers.kubernetesingress=true",
    `--providers.kubernetesingress.ingressclass=${ingressClass}`,
    "--accesslog=true",
    "--global.checknewversion=false",
    "--global.sendanonymoususage=false",
    ...options.args,
  ];
  return [
    serviceAccount(ns, name),
    { apiVersion: "rbac.authorization.k8s.io/v1", kind: "ClusterRole", metadata: { name: role }, rules: RULES },
    {
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "ClusterRoleBinding",
      metadata: { name: role },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: role },
      subjects: [{ kind: "ServiceAccount", namespace: ns, name }],
    },
    {
      apiVersion: "networking.k8s.io/v1",
      kind: "IngressClass",
      metadata: { name: ingressClass },
      spec: { controller: "traefik.io/ingress-controller" },
    },
    deployment({
      namespace: ns,
      name,
      image: IMAGES.traefik,
      args,
      ports: PORTS,
      serviceAccountName: name,
      readinessProbe: { httpGet: { path: "/ping", port: "ping" } },
    }),
  ];
}

const READ = ["get", "list", "watch"];
const GATEWAY_GROUP = "gateway.networking.k8s.io";
const ROUTES = ["httproutes", "grpcroutes", "tcproutes", "tlsroutes", "gateways", "gatewayclasses"];
const RULES = [
  { apiGroups: [""], resources: ["services", "secrets", "nodes", "namespaces", "configmaps"], verbs: READ },
  { apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"], verbs: READ },
  { apiGroups: ["networking.k8s.io"], resources: ["ingresses", "ingressclasses"], verbs: READ },
  { apiGroups: ["networking.k8s.io"], resources: ["ingresses/status"], verbs: ["update"] },
  { apiGroups: [GATEWAY_GROUP], resources: [...ROUTES, "referencegrants", "backendtlspolicies"], verbs: READ },
  {
    apiGroups: [GATEWAY_GROUP],
    resources: [...ROUTES, "backendtlspolicies"].map((name) => `${name}/status`),
    verbs: ["update"],
  },
];
