import { createSelector } from "#hostmap/pod-selection.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { aliasesText, kubeletText } from "#test/fakes/kubelet-files.ts";
import { MAX_BYTES, type Surface, tolerant } from "#test/fuzz/fuzz.ts";
import { parseAgentLease } from "../agent-lease-format.ts";
import { RefusedChange } from "../file-bytes.ts";
import { createLivePlans } from "../live-plans.ts";

const MAX_NAMES = 500;
const ADDRESS = "198.51.100.9";
const NAMES = Array.from({ length: 1_000 }, (_, index) => `name-${index}.example.com`);
const MAP = publishedMapOf("r1", new Map(NAMES.map((name) => [name, [ADDRESS]])));

function hostsFiles(): Surface {
  const plans = createLivePlans();
  const managed = [{ ip: ADDRESS, hostnames: ["name-1.example.com", "name-2.example.com"] }];
  const selected = createSelector(MAP, MAX_NAMES)(undefined);
  const written = kubeletText(aliasesText(managed));
  const followed = plans.apply(Buffer.from(written, "latin1"), managed, selected).toString("latin1");
  return {
    name: "hosts files",
    seeds: [written, followed, kubeletText()],
    prepare: (input) => Buffer.from(String(input).slice(0, MAX_BYTES), "latin1"),
    feed(content) {
      try {
        plans.apply(content as Buffer, managed, selected);
      } catch (error) {
        if (!(error instanceof RefusedChange)) throw error;
      }
    },
  };
}

/** Data that a container or another agent writes, and an agent or the controller reads. */
export const SURFACES: readonly Surface[] = [
  hostsFiles(),
  {
    name: "agents' Leases",
    seeds: [
      {
        metadata: { name: "node-1", annotations: { "switchback.dev/format": "1", "switchback.dev/revision": "r" } },
        spec: { holderIdentity: "a", renewTime: "2026-01-01T00:00:00.000000Z", leaseDurationSeconds: 40 },
      },
    ],
    feed: tolerant((raw) => void parseAgentLease(raw)),
  },
];
