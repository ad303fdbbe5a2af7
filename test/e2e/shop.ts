import { isIP } from "node:net";
import { ACME_DIRECTORY } from "../cluster/addons/internet.ts";
import { deployment, namespace, service } from "../cluster/addons/objects.ts";
import { PORTS } from "../cluster/addons/traefik.ts";
import type { Cluster, KubeObject } from "../cluster/cluster.ts";
import { IMAGES } from "../cluster/images.ts";
import { statePath } from "../cluster/node/layout.ts";
import { RESOLVE } from "./programs/run.ts";

/** The namespace of an ordinary user who knows nothing about Switchback. */
export const SHOP = "shop";
/** The shop's public name, which is at nginx's load balancer. */
export const NAME = "app.example.com";
export const CERTIFICATE = "app-tls";
/** Class of the shop's Ingresses, and the name of its target. */
export const CLASS = "nginx";
export const TARGET = "ingress-nginx";

/** What both clients print for a GET (cluster/images/client.go, programs/client.ts): the error, or the other fields. */
export interface Answer {
  status?: number;
  body?: string;
  issuer?: string;
  names?: string[];
  remote?: string;
  error?: string;
}

/** A backend behind an Ingress of class `nginx`, and a pod that calls it by its public name. */
export async function openShop(cluster: Cluster): Promise<void> {
  const app = { namespace: SHOP, image: IMAGES.goClient };
  await cluster.apply(
    namespace(SHOP),
    deployment({
      ...app,
      name: "app",
      args: ["serve", ":8000", "the shop"],
      ports: { http: 8000 },
      readinessProbe: { tcpSocket: { port: "http" } },
    }),
    service(SHOP, "app", { app: "app", ports: [{ name: "http", port: 80, targetPort: "http" }] }),
    ingress("app", NAME, CLASS, CERTIFICATE),
    deployment({ ...app, name: "client", args: ["sleep"] }),
  );
  await cluster.rolledOut(SHOP, "deployment/app", "deployment/client");
}

export function ingress(name: string, host: string, ingressClassName: string, secretName?: string): KubeObject {
  const backend = { service: { name: "app", port: { name: "http" } } };
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "Ingress",
    metadata: { namespace: SHOP, name },
    spec: {
      ingressClassName,
      rules: [{ host, http: { paths: [{ path: "/", pathType: "Prefix", backend }] } }],
      ...(secretName && { tls: [{ hosts: [host], secretName }] }),
    },
  };
}

/**
 * Sets the address in an Ingress's status, by which Switchback finds its target. ingress-nginx writes its Service's
 * address there. Undefined: removes the address.
 */
export async function setIngressAddress(cluster: Cluster, name: string, ip: string | undefined): Promise<void> {
  const status = JSON.stringify({ status: { loadBalancer: ip === undefined ? null : { ingress: [{ ip }] } } });
  await cluster.kubectl(
    ...["-n", SHOP, "patch", "ingress", name, "--subresource=status", "--type=merge", "-p", status],
  );
}

/**
 * A Gateway of Traefik for its two entry points, and a route to the shop. The ports of the listeners are those of the
 * entry points.
 */
export function gatewayAndRoute(name: string, host: string, secretName: string): KubeObject[] {
  const [apiVersion, metadata] = ["gateway.networking.k8s.io/v1", { namespace: SHOP, name }];
  const tls = { certificateRefs: [{ name: secretName }] };
  const listeners = [
    { name: "web", port: PORTS.web, protocol: "HTTP" },
    { name: "websecure", port: PORTS.websecure, protocol: "HTTPS", tls },
  ];
  const rules = [{ backendRefs: [{ name: "app", port: 80 }] }];
  return [
    { apiVersion, kind: "Gateway", metadata, spec: { gatewayClassName: "traefik", listeners } },
    { apiVersion, kind: "HTTPRoute", metadata, spec: { parentRefs: [{ name }], hostnames: [host], rules } },
  ];
}

interface IssuerSettings {
  readonly issuer?: string;
  readonly waitInsteadOfSelfCheck?: string;
}

/**
 * Creates an Issuer that uses HTTP-01 with the ACME server outside. The other settings belong to its solver. Resolves
 * when its account is registered.
 */
export async function createIssuer(cluster: Cluster, settings: IssuerSettings = {}): Promise<void> {
  const { issuer = "acme", ...solver } = settings;
  const acme = {
    server: ACME_DIRECTORY,
    skipTLSVerify: true,
    privateKeySecretRef: { name: `${issuer}-account` },
    solvers: [{ http01: { ingress: { class: CLASS } }, ...solver }],
  };
  await applyForCertManager(cluster, "Issuer", issuer, { acme });
  await cluster.kubectl("-n", SHOP, "wait", "--for=condition=Ready", "--timeout=60s", `issuer/${issuer}`);
}

/** Orders a Certificate from an Issuer with the same settings. */
export async function orderCertificate(
  cluster: Cluster,
  dnsName = NAME,
  certificate = CERTIFICATE,
  settings: IssuerSettings = {},
): Promise<void> {
  await createIssuer(cluster, settings);
  const spec = { secretName: certificate, dnsNames: [dnsName], issuerRef: { name: settings.issuer ?? "acme" } };
  await applyForCertManager(cluster, "Certificate", certificate, spec);
}

async function applyForCertManager(cluster: Cluster, kind: string, name: string, spec: object): Promise<void> {
  const object = { apiVersion: "cert-manager.io/v1", kind, metadata: { namespace: SHOP, name }, spec };
  // For a moment after its pod was recreated, cert-manager's own webhook rejects requests. A request that was on its
  // way to the former pod hangs for the webhook's 30 s.
  await cluster.until("cert-manager takes the objects", 120, async () => {
    await cluster.apply(object);
    return true;
  });
}

/**
 * GET from the shop's own pod, which resolves the name as pods do. `like`: an address whose family the request uses.
 */
export async function getInside(cluster: Cluster, url: string, like?: string): Promise<Answer> {
  const network = like === undefined ? [] : [`tcp${isIP(like)}`];
  const { stdout } = await cluster.exec(`${SHOP}/deployment/client`, "/client", "get", url, ...network);
  return JSON.parse(stdout) as Answer;
}

/** The result of resolving NAME in the shop's own pod: its addresses, or why it has none. */
export async function resolvedPlainly(cluster: Cluster): Promise<string> {
  return (await cluster.exec(`${SHOP}/deployment/client`, "/client", RESOLVE, NAME)).stdout.trim();
}

/** GET from the internet, on a connection to `address` (`ip:port`). */
export async function getOutside(cluster: Cluster, url: string, address: string): Promise<Answer> {
  const { stdout } = await cluster.outside(statePath("built", "client"), "get", url, address);
  return JSON.parse(stdout) as Answer;
}

export interface Condition {
  type: string;
  status: string;
  message?: string;
}

export async function isCertificateReady(cluster: Cluster, certificate = CERTIFICATE): Promise<boolean> {
  const { status } = await cluster.get<{ status?: { conditions?: Condition[] } }>(
    ...["-n", SHOP, "certificate", certificate],
  );
  return status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True") === true;
}

/** Waits until the Certificate is issued. */
export async function certificateIsReady(cluster: Cluster, certificate = CERTIFICATE): Promise<void> {
  await cluster.until("the Certificate is Ready", 180, async () => {
    return (await isCertificateReady(cluster, certificate)) || undefined;
  });
}

/** Name of the objects for a hostname. */
export const nameOf = (host: string) => host.slice(0, host.indexOf("."));

/**
 * Deletes the Ingress and the Certificate of a hostname, and waits until the objects that cert-manager made for them
 * are gone.
 */
export async function closeShop(cluster: Cluster, host: string, className: string): Promise<void> {
  const certificate = `${nameOf(host)}-tls`;
  await cluster.delete(ingress(nameOf(host), host, className));
  await cluster.kubectl(
    "-n",
    SHOP,
    "delete",
    `certificate/${certificate}`,
    `secret/${certificate}`,
    "--ignore-not-found",
  );
  await cluster.until(`what was made for ${host} is gone`, 60, async () => {
    const kinds = "certificaterequests,orders,challenges,pods,services,ingresses,secrets";
    const left = await cluster.kubectl("-n", SHOP, "get", kinds, "-o", "name");
    return !new RegExp(`/${certificate}-|/cm-acme-http-solver-`).test(left) || undefined;
  });
}
