import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryServer, refusal } from "#test/fakes/memory-server.ts";
import { known, notKnown } from "./fact.ts";
import { gatherCallers } from "./gather-callers.ts";

function cluster(): MemoryServer {
  const server = new MemoryServer();
  const pod = (name: string, ip: string, spec = {}) => {
    const owner = { apiVersion: "apps/v1", kind: "DaemonSet", name, controller: true, uid: name };
    const object = {
      metadata: { ownerReferences: [owner] },
      spec,
      status: { podIPs: [{ ip }, { ip: `2001:db8::${ip.split(".")[3]}` }] },
    };
    server.add("/api/v1/namespaces/shop/pods", name, object);
  };
  pod("api", "203.0.113.7");
  pod("worker", "203.0.113.8");
  pod("exporter", "192.0.2.10", { hostNetwork: true });
  server.add("/api/v1/nodes", "node-1", {
    spec: { podCIDRs: ["203.0.113.0/24", "nonsense"] },
    status: {
      addresses: [
        { type: "Hostname", address: "node-1" },
        { type: "InternalIP", address: "192.0.2.10" },
      ],
    },
  });
  return server;
}

const refused = (client: string, request = "GET / HTTP/1.1") =>
  `broken header: "${request}" while reading PROXY protocol, client: ${client}, server: x\n`;

test(
  "lists workloads, most calls first; a node's address hides its pods; " + "callers from outside do not count",
  async () => {
    const log = [
      refused("203.0.113.8"),
      refused("203.0.113.7"),
      refused("2001:db8::7"),
      refused("203.0.113.1"),
      refused("192.0.2.10"),
      refused("192.0.2.10", "GET /.well-known/acme-challenge/x HTTP/1.1"),
      "192.0.2.10 - - a health check that was answered\n",
      "198.51.100.3 - - somebody outside\n",
      refused("198.51.100.4"),
    ];
    const workloads = [
      { owner: "shop/DaemonSet/api", calls: 2 },
      { owner: "shop/DaemonSet/worker", calls: 1 },
    ];
    const value = { workloads, refused: 6, masqueraded: 2, selfChecks: 1, total: 9 };
    assert.deepEqual(await gatherCallers(cluster().client, log.join("")), known(value));
  },
);

for (const resource of ["pods", "nodes"]) {
  test(`the callers are unknown without the permission to list ${resource}`, async () => {
    const server = cluster();
    server.onCall = ({ path }) => (path === `/api/v1/${resource}` ? refusal(403, "Forbidden") : undefined);
    const missing = notKnown("right-missing", `missing permission: list ${resource} in all namespaces`);
    assert.deepEqual(await gatherCallers(server.client, refused("203.0.113.7")), missing);
  });
}
