import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { envoyProgram } from "../../cluster/envoy.ts";
import type { Place, Start } from "./software.ts";

const TYPES = "type.googleapis.com/envoy.extensions";

const MODES = {
  "no PROXY protocol": undefined,
  proxy_protocol: {},
  "proxy_protocol, v1 disallowed": { disallowed_versions: ["V1"] },
  "proxy_protocol, v2 disallowed": { disallowed_versions: ["V2"] },
  allow_requests_without_proxy_protocol: { allow_requests_without_proxy_protocol: true },
} as const;
export type EnvoyMode = keyof typeof MODES;

export const startEnvoy: Start<EnvoyMode> = async (modes, place) => {
  const listeners = modes.flatMap(([mode, { http, tls }]) => [
    listener(http, MODES[mode]),
    listener(tls, MODES[mode], tlsSocket(place)),
  ]);
  const file = join(place.folder, "envoy.json");
  await writeFile(file, JSON.stringify({ static_resources: { listeners } }));
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

function tlsSocket({ cert, key }: Place): object {
  const pair = { certificate_chain: { filename: cert }, private_key: { filename: key } };
  const type = `${TYPES}.transport_sockets.tls.v3.DownstreamTlsContext`;
  return { name: "tls", typed_config: { "@type": type, common_tls_context: { tls_certificates: [pair] } } };
}
