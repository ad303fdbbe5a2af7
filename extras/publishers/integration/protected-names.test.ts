import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { type NameProtection, protectNames } from "#hostmap/protected-names.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { query } from "#test/fakes/dns-message.ts";
import { type CoreDns, CoreDnsBed, LOCAL } from "#test/integration/coredns.ts";
import { parseCorefile } from "../corefile.ts";
import { toPublisherMap } from "../publisher-map.ts";
import { renderServerBlocks } from "../server-blocks.ts";
import { serverZones } from "../server-zones.ts";

// A real CoreDNS that answers for the cluster's domain `k8s.corp.test`, with the map of tenants who claim wildcards
// above that domain and above the search domain of the nodes.

const RELAY = "198.51.100.9";
const CLUSTER_IP = "203.0.113.1";
const SEARCH = "eu-central-1.compute.test";
const NAMES = ["**.corp.test", "*.corp.test", "**.compute.test", `**.${SEARCH}`, `*.${SEARCH}`];

let bed: CoreDnsBed;

const corefile = (port: number, ready: string) => `.:${port} {
    bind ${LOCAL}
    ready ${ready}
    reload 2s
    template IN A k8s.corp.test {
        answer "{{ .Name }} 5 IN A ${CLUSTER_IP}"
    }
    template ANY ANY . {
        rcode NXDOMAIN
    }
}
`;

/** A CoreDNS whose Corefile has a publisher's blocks, with the names that a protection leaves in the map. */
async function serverWith(name: string, protect: NameProtection): Promise<CoreDns> {
  const map = toPublisherMap(publishedMapOf("r1", new Map(NAMES.map((each) => [each, [RELAY]]))), protect);
  return await bed.server(name, (port, ready) => {
    const rest = corefile(port, ready);
    const parsed = parseCorefile(rest);
    assert.ok(typeof parsed !== "string");
    const { listen, taken } = serverZones(parsed);
    assert.ok(listen !== undefined);
    const options = { publisher: "coredns", first: true, maxBytes: 900_000, listen, taken };
    return renderServerBlocks(map, options).text + rest;
  });
}

before(() => {
  bed = new CoreDnsBed();
});
after(() => bed.stop());

const KUBERNETES = "kubernetes.default.svc.k8s.corp.test";
const SEARCHED = `api.github.com.${SEARCH}`;

describe("wildcards that would take other names", () => {
  it("do so without protection", async () => {
    const server = await serverWith("unprotected", () => undefined);
    for (const name of [KUBERNETES, SEARCHED]) assert.deepEqual((await query(server, name, "A")).addresses, [RELAY]);
  });

  it("are left out by a publisher, so that the cluster's names and external ones stay as they were", async () => {
    const server = await serverWith("protected", protectNames("k8s.corp.test", [SEARCH]));
    assert.deepEqual((await query(server, KUBERNETES, "A")).addresses, [CLUSTER_IP]);
    assert.deepEqual((await query(server, SEARCHED, "A")).addresses, []);
    for (const name of ["a.corp.test", `a.${SEARCH}`])
      assert.deepEqual((await query(server, name, "A")).addresses, [RELAY], name);
  });
});
