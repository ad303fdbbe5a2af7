import { join } from "node:path";
import { testGoldenPods } from "#test/golden-pods.ts";
import { podDnsBy } from "./delivery.ts";
import type { PodDnsSetup } from "./dns-config.ts";

const SETUP: PodDnsSetup = {
  resolvers: ["10.96.0.11", "10.96.0.12"],
  cluster: {
    servers: ["10.96.0.10"],
    domain: "cluster.local",
    nodeSearches: ["corp.example"],
    options: [{ name: "ndots", value: "5" }],
  },
};
const NOT_READY = { code: "dns-not-ready", text: "10.96.0.12 does not answer" };

testGoldenPods(join(import.meta.dirname, "fixtures"), ({ notReady }) => podDnsBy(() => (notReady ? NOT_READY : SETUP)));
