import { writeFile } from "node:fs/promises";
import { isIPv4, isIPv6 } from "node:net";
import { join } from "node:path";
import { binary } from "../binaries.ts";
import type { Cluster } from "../cluster.ts";
import { startDaemon } from "../node/daemons.ts";
import { ADDRESSES, statePath, withPort } from "../node/layout.ts";
import { programPath } from "../node/requirements.ts";
import { createTestCa } from "../pki.ts";
import { until } from "../processes.ts";
import { addressesOf, haproxyConfiguration, LOAD_BALANCERS, NGINX, PLAIN, TRAEFIK } from "./load-balancers.ts";

/** Pebble's directory, as an Issuer names it. */
export const ACME_DIRECTORY = `https://${withPort(ADDRESSES.acme, 14_000)}/dir`;
/** Load balancers of public names. All other names lead to nginx's load balancer. */
const NAMES: Record<string, readonly string[]> = {
  "traefik.example.com": TRAEFIK.addresses,
  "route.example.com": TRAEFIK.addresses,
  "gateway.example.com": TRAEFIK.addresses,
  "plain.example.com": PLAIN.addresses,
  "fresh.example.com": addressesOf(({ freshLoadBalancer }) => freshLoadBalancer).addresses,
};

const DNS_MANAGEMENT = `http://${withPort(ADDRESSES.publicDns, 8055)}`;

/**
 * Starts the public DNS, the load balancers and the ACME server in the network namespace that simulates the internet.
 */
export async function install(cluster: Cluster): Promise<void> {
  const options = { namespace: "internet" } as const;
  const dns = startDaemon("public-dns", await binary("pebble-challtestsrv"), publicDnsArgs(), options);
  const haproxy = statePath("haproxy.cfg");
  await writeFile(haproxy, haproxyConfiguration(LOAD_BALANCERS));
  const balancer = startDaemon("load-balancers", await programPath("haproxy"), ["-db", "-f", haproxy], options);
  const acme = startDaemon("pebble", await binary("pebble"), await pebbleArgs(), {
    ...options,
    env: { PEBBLE_VA_NOSLEEP: "1", PEBBLE_WFE_NONCEREJECT: "0", PEBBLE_AUTHZREUSE: "0" },
  });
  for (const [name, all] of Object.entries(NAMES)) {
    for (const address of all) {
      await until("the public DNS answers", 20, () => addAddress(cluster, name, address), dns);
    }
  }
  await until("the load balancers listen", 20, () => listens(cluster, NGINX.address, 80), balancer);
  await until("the ACME server listens", 20, () => listens(cluster, ADDRESSES.acme, 14_000), acme);
}

async function addAddress(cluster: Cluster, name: string, address: string): Promise<string | undefined> {
  const add = `${DNS_MANAGEMENT}/${isIPv6(address) ? "add-aaaa" : "add-a"}`;
  return await post(cluster, add, JSON.stringify({ host: `${name}.`, addresses: [address] }));
}

/**
 * Sets the address of a name in the public DNS. Nobody may have looked it up yet, because the cluster's DNS caches
 * answers.
 */
export async function setAddress(cluster: Cluster, name: string, address: string): Promise<void> {
  const missing = await addAddress(cluster, name, address);
  if (missing !== undefined) throw new Error(missing);
}

/** Sets the only TXT record of a name in the public DNS, as DNS-01 needs it. */
export async function setText(cluster: Cluster, name: string, value: string): Promise<void> {
  await post(cluster, `${DNS_MANAGEMENT}/clear-txt`, JSON.stringify({ host: `${name}.` }));
  const missing = await post(cluster, `${DNS_MANAGEMENT}/set-txt`, JSON.stringify({ host: `${name}.`, value }));
  if (missing !== undefined) throw new Error(missing);
}

/** Sets the CNAME record of a name in the public DNS. */
export async function setAlias(cluster: Cluster, name: string, target: string): Promise<void> {
  const body = JSON.stringify({ host: `${name}.`, target: `${target}.` });
  const missing = await post(cluster, `${DNS_MANAGEMENT}/set-cname`, body);
  if (missing !== undefined) throw new Error(missing);
}

function publicDnsArgs(): string[] {
  const off = ["-doh", "", "-http01", "", "-https01", "", "-tlsalpn01", ""];
  const management = ["-management", withPort(ADDRESSES.publicDns, 8055)];
  const ofFamily = (isOfFamily: (address: string) => boolean) => NGINX.addresses.find(isOfFamily) ?? "";
  const answers = ["-defaultIPv4", ofFamily(isIPv4), "-defaultIPv6", ofFamily(isIPv6)];
  return ["-dnsserver", withPort(ADDRESSES.publicDns, 53), ...management, ...answers, ...off];
}

async function pebbleArgs(): Promise<string[]> {
  const folder = statePath();
  const { cert, key } = createTestCa("internet-ca").serving([ADDRESSES.acme]);
  const paths = { certificate: join(folder, "pebble.crt"), privateKey: join(folder, "pebble.key") };
  await writeFile(paths.certificate, cert);
  await writeFile(paths.privateKey, key);
  const pebble = {
    listenAddress: withPort(ADDRESSES.acme, 14_000),
    managementListenAddress: withPort(ADDRESSES.acme, 15_000),
    ...paths,
    httpPort: 80,
    tlsPort: 443,
    retryAfter: { authz: 1, order: 1 },
    profiles: { default: { description: "90 days", validityPeriod: 7_776_000 } },
  };
  await writeFile(join(folder, "pebble.json"), JSON.stringify({ pebble }));
  return ["-config", join(folder, "pebble.json"), "-dnsserver", withPort(ADDRESSES.publicDns, 53)];
}

async function post(cluster: Cluster, url: string, body: string): Promise<string | undefined> {
  const source =
    `fetch(process.argv[1], { method: "POST", body: process.argv[2] }).then((r) => process.exit(r.ok ? 0 : 1), () ` +
    "=> process.exit(1))";
  const { code } = await cluster.outside(process.execPath, "-e", source, url, body);
  return code === 0 ? undefined : `${url} does not answer`;
}

async function listens(cluster: Cluster, host: string, port: number): Promise<string | undefined> {
  const source =
    `require("node:net").connect(process.argv[2], process.argv[1]).on("connect", () => ` +
    `process.exit(0)).on("error", () => process.exit(1))`;
  const { code } = await cluster.outside(process.execPath, "-e", source, host, `${port}`);
  return code === 0 ? undefined : `nothing listens at ${withPort(host, port)}`;
}
