import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { binary, Unavailable } from "../../cluster/binaries.ts";
import type { Start } from "./software.ts";

/** Why Caddy is not available here, or undefined if it is. The first call builds it. */
export async function whyNoCaddy(): Promise<string | undefined> {
  try {
    await binary("caddy");
    return undefined;
  } catch (error) {
    if (error instanceof Unavailable) return error.message;
    throw error;
  }
}

const WITH = ["127.0.0.0/8"];
const WITHOUT = ["192.0.2.0/24"];
const MODES = {
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
export type CaddyMode = keyof typeof MODES;

export const startCaddy: Start<CaddyMode> = async (modes, { folder, cert, key }) => {
  const servers = modes.flatMap(([mode, ports], index) =>
    (["http", "tls"] as const).map((speaks) => {
      const policy = MODES[mode];
      const wrapper = { wrapper: "proxy_protocol", ...policy };
      const wrappers = { listener_wrappers: [wrapper, { wrapper: "tls" }] };
      const server = {
        listen: [`127.0.0.1:${ports[speaks]}`],
        automatic_https: { disable: true },
        protocols: ["h1"],
        routes: [{ handle: [{ handler: "static_response", status_code: 404 }] }],
        ...(policy && wrappers),
        ...(speaks === "tls" && { tls_connection_policies: [{}] }),
      };
      return [`${speaks}${index}`, server];
    }),
  );
  const config = {
    admin: { disabled: true },
    apps: {
      http: { servers: Object.fromEntries(servers) },
      tls: { certificates: { load_files: [{ certificate: cert, key }] } },
    },
  };
  const file = join(folder, "caddy.json");
  await writeFile(file, JSON.stringify(config));
  return [await binary("caddy"), file];
};
