import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "yaml";
import { binary } from "../../cluster/binaries.ts";
import { envoyProgram } from "../../cluster/envoy.ts";
import { NotHere } from "../../cluster/not-here.ts";
import { caddyJson, type ReceiverPlace } from "../../cluster/receivers.ts";
import { write } from "./debian.ts";
import type { Start } from "./software.ts";

/** Why Caddy is not available here, or undefined if it is. The first call builds it. */
export async function whyNoCaddy(): Promise<string | undefined> {
  try {
    await binary("caddy");
    return undefined;
  } catch (error) {
    if (error instanceof NotHere) return error.message;
    throw error;
  }
}

const WITH = ["127.0.0.0/8"];
const WITHOUT = ["192.0.2.0/24"];
const CADDY_MODES = {
  "no PROXY protocol": undefined,
  proxy_protocol: {},
  "allow with the proxies": { allow: WITH },
  "allow without the proxies": { allow: WITHOUT },
  "allow with the proxies, fallback_policy skip": { allow: WITH, fallback_policy: "SKIP" },
  "allow without the proxies, fallback_policy skip": { allow: WITHOUT, fallback_policy: "SKIP" },
  "allow without the proxies, fallback_policy reject": { allow: WITHOUT, fallback_policy: "REJECT" },
  "deny with the proxies": { deny: WITH },
  "fallback_policy use": { fallback_policy: "USE" },
  "fallback_policy require": { fallback_policy: "REQUIRE" },
} as const;
export type CaddyMode = keyof typeof CADDY_MODES;

export const startCaddy: Start<CaddyMode> = async (modes, place) => {
  const settings = modes.map(([mode, ports]) => [CADDY_MODES[mode], ports] as const);
  return [await binary("caddy"), await write(place, caddyJson(settings, place, { status_code: 404 }))];
};

const TRAEFIK_MODES = {
  "no PROXY protocol": undefined,
  "proxyProtocol.insecure": { insecure: true },
  "proxyProtocol.trustedIPs with the proxies": { trustedIPs: ["127.0.0.0/8"] },
  "proxyProtocol.trustedIPs without the proxies": { trustedIPs: ["192.0.2.0/24"] },
} as const;
export type TraefikMode = keyof typeof TRAEFIK_MODES;

export const startTraefik: Start<TraefikMode> = async (modes, { temporary: folder, cert, key }) => {
  const entryPoints = modes.flatMap(([mode, ports], index) =>
    (["http", "tls"] as const).map((speaks) => {
      const proxyProtocol = TRAEFIK_MODES[mode];
      const tls = speaks === "tls" ? { http: { tls: {} } } : {};
      return [
        `${speaks}${index}`,
        { address: `127.0.0.1:${ports[speaks]}`, ...tls, ...(proxyProtocol && { proxyProtocol }) },
      ];
    }),
  );
  const dynamic = join(folder, "dynamic.yaml");
  // A router with TLS on each entry point: without one, Traefik serves no TLS there.
  const tlsPoints = modes.map((_, index) => `tls${index}`);
  const router = { rule: "Host(`shop.example.com`)", entryPoints: tlsPoints, service: "none", tls: {} };
  const services = { none: { loadBalancer: { servers: [{ url: "http://127.0.0.1:1" }] } } };
  const certificates = [{ certFile: cert, keyFile: key }];
  await writeFile(dynamic, stringify({ tls: { certificates }, http: { routers: { shop: router }, services } }));
  const file = join(folder, "traefik.yaml");
  const providers = { file: { filename: dynamic } };
  const global = { checkNewVersion: false, sendAnonymousUsage: false };
  await writeFile(file, stringify({ global, entryPoints: Object.fromEntries(entryPoints), providers }));
  return [await binary("traefik"), `--configFile=${file}`];
};

const TYPES = "type.googleapis.com/envoy.extensions";

const ENVOY_MODES = {
  "no PROXY protocol": undefined,
  proxy_protocol: {},
  "proxy_protocol, v1 disallowed": { disallowed_versions: ["V1"] },
  "proxy_protocol, v2 disallowed": { disallowed_versions: ["V2"] },
  allow_requests_without_proxy_protocol: { allow_requests_without_proxy_protocol: true },
} as const;
export type EnvoyMode = keyof typeof ENVOY_MODES;

export const startEnvoy: Start<EnvoyMode> = async (modes, place) => {
  const listeners = modes.flatMap(([mode, { http, tls }]) => [
    listener(http, ENVOY_MODES[mode]),
    listener(tls, ENVOY_MODES[mode], tlsSocket(place)),
  ]);
  const file = await write(place, JSON.stringify({ static_resources: { listeners } }));
  return [await envoyProgram(), "-c", file, "--use-dynamic-base-id", "--concurrency", "1"];
};

function listener(port: number, proxyProtocol: object | undefined, transport?: object): object {
  const type = `${TYPES}.filters.listener.proxy_protocol.v3.ProxyProtocol`;
  const filter = { name: "proxy_protocol", typed_config: { "@type": type, ...proxyProtocol } };
  return {
    address: { socket_address: { address: "127.0.0.1", port_value: port } },
    listener_filters: proxyProtocol === undefined ? [] : [filter],
    filter_chains: [{ filters: [httpFilter()], ...(transport && { transport_socket: transport }) }],
  };
}

function httpFilter(): object {
  const manager = `${TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager`;
  const router = { name: "router", typed_config: { "@type": `${TYPES}.filters.http.router.v3.Router` } };
  const host = { name: "all", domains: ["*"], routes: [{ match: { prefix: "/" }, direct_response: { status: 404 } }] };
  const config = { stat_prefix: "test", route_config: { virtual_hosts: [host] }, http_filters: [router] };
  return { name: "http", typed_config: { "@type": manager, ...config } };
}

function tlsSocket({ cert, key }: ReceiverPlace): object {
  const pair = { certificate_chain: { filename: cert }, private_key: { filename: key } };
  const type = `${TYPES}.transport_sockets.tls.v3.DownstreamTlsContext`;
  return { name: "tls", typed_config: { "@type": type, common_tls_context: { tls_certificates: [pair] } } };
}
