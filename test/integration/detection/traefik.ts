import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "yaml";
import { binary } from "../../cluster/binaries.ts";
import type { Start } from "./software.ts";

const MODES = {
  "no PROXY protocol": undefined,
  "proxyProtocol.insecure": { insecure: true },
  "proxyProtocol.trustedIPs with the proxies": { trustedIPs: ["127.0.0.0/8"] },
  "proxyProtocol.trustedIPs without the proxies": { trustedIPs: ["192.0.2.0/24"] },
} as const;
export type TraefikMode = keyof typeof MODES;

export const startTraefik: Start<TraefikMode> = async (modes, { folder, cert, key }) => {
  const entryPoints = modes.flatMap(([mode, ports], index) =>
    (["http", "tls"] as const).map((speaks) => {
      const proxyProtocol = MODES[mode];
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
