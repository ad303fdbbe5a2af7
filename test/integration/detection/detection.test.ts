import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { HeaderAnswer } from "#lib/documents/header-answers.ts";
import { askRound } from "#proxy/detection/ask.ts";
import { readyBinary } from "../../cluster/binaries.ts";
import { whyNoDebian } from "../../cluster/debian.ts";
import { whyNoEnvoy } from "../../cluster/envoy.ts";
import { type HaproxyMode, type NginxMode, startHaproxy, startNginx } from "./debian.ts";
import {
  type CaddyMode,
  type EnvoyMode,
  startCaddy,
  startEnvoy,
  startTraefik,
  type TraefikMode,
  whyNoCaddy,
} from "./programs.ts";
import { NAME, type Running, run, SPEAKS, type Start } from "./software.ts";

// The answer of real software in each of its modes, over HTTP and over TLS. All requests come from 127.0.0.1, so a
// list "with the proxies" has this address.

type Expected<Mode extends string> = Readonly<Record<Mode, HeaderAnswer>>;

const NGINX: Expected<NginxMode> = {
  "no PROXY protocol": "refuses-header",
  "listen ... proxy_protocol": "demands-either",
  // The list says whose address in a header counts, not who may send one.
  "listen ... proxy_protocol, list with the proxies": "demands-either",
  "listen ... proxy_protocol, list without the proxies": "demands-either",
};

const HAPROXY: Expected<HaproxyMode> = {
  "no PROXY protocol": "refuses-header",
  "accept-proxy": "demands-either",
  "expect-proxy, list with the proxies": "demands-either",
  "expect-proxy, list without the proxies": "refuses-header",
};

const ENVOY: Expected<EnvoyMode> = {
  "no PROXY protocol": "refuses-header",
  proxy_protocol: "demands-either",
  "proxy_protocol, v1 disallowed": "demands-v2",
  "proxy_protocol, v2 disallowed": "demands-v1",
  allow_requests_without_proxy_protocol: "optional",
};

const TRAEFIK: Expected<TraefikMode> = {
  "no PROXY protocol": "refuses-header",
  "proxyProtocol.insecure": "optional",
  "proxyProtocol.trustedIPs with the proxies": "optional",
  // Traefik reads the header of an address that is not listed, and ignores it.
  "proxyProtocol.trustedIPs without the proxies": "optional",
};

const CADDY: Expected<CaddyMode> = {
  "no PROXY protocol": "refuses-header",
  // By default, Caddy reads the header of an address that is not listed, and ignores it.
  proxy_protocol: "optional",
  "allow with the proxies": "optional",
  "allow without the proxies": "optional",
  "allow with the proxies, fallback_policy skip": "optional",
  "allow without the proxies, fallback_policy skip": "refuses-header",
  "allow without the proxies, fallback_policy reject": "refuses-header",
  "deny with the proxies": "refuses-header",
  "fallback_policy use": "optional",
  "fallback_policy require": "demands-either",
};

function answers<Mode extends string>(name: string, start: Start<Mode>, expected: Expected<Mode>, skip?: string): void {
  const modes = Object.keys(expected) as Mode[];
  describe(name, { skip: skip ?? false }, () => {
    let running: Running<Mode>;
    before(async () => {
      running = await run(name, modes, start);
    });
    after(() => running?.stop());
    for (const mode of modes) {
      for (const speaks of SPEAKS) {
        it(`${mode}, ${speaks}: ${expected[mode]}`, async () => {
          const port = running.ports[mode][speaks];
          const { answer, seen } = await askRound({ host: "127.0.0.1", port, speaks, name: NAME, agent: "test" });
          assert.equal(answer, expected[mode], JSON.stringify(seen));
        });

        const otherwise = name === "traefik" ? expected[mode] : "unknown";
        it(`${mode}, ${speaks}, asked for the other protocol: ${otherwise}`, async () => {
          const port = running.ports[mode][speaks];
          const other = speaks === "http" ? "tls" : "http";
          const { answer, seen } = await askRound({
            host: "127.0.0.1",
            port,
            speaks: other,
            name: NAME,
            agent: "test",
          });
          assert.equal(answer, otherwise, JSON.stringify(seen));
        });
      }
    }
  });
}

answers("nginx", startNginx, NGINX, whyNoDebian());
answers("haproxy", startHaproxy, HAPROXY, whyNoDebian());
answers("envoy", startEnvoy, ENVOY, whyNoEnvoy());
// A build takes 6 minutes, so this needs the build that the end-to-end tests have made.
if (await readyBinary("traefik")) answers("traefik", startTraefik, TRAEFIK);
answers("caddy", startCaddy, CADDY, await whyNoCaddy());
