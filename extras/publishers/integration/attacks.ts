import assert from "node:assert/strict";
import { query } from "#test/fakes/dns-message.ts";
import type { Attack } from "#test/integration/attack/attack.ts";
import { denied, MAP_TRY, MERGE, NOBODYS_TRIES } from "#test/integration/attack/attacks/stolen-token.ts";
import { createIngress, sweep } from "#test/integration/attack/attacks/tenant.ts";
import { NEIGHBOUR_NAME } from "#test/integration/attack/stage.ts";
import { CoreDnsBed, LOCAL } from "#test/integration/coredns.ts";
import { NAMESPACE, type System, until } from "#test/integration/system.ts";
import { CorednsPublisher } from "../coredns.ts";
import { NO_ANSWER, type Readers } from "../publisher.ts";
import { startPublisher } from "./publisher-run.ts";

// Attacks on the names in the cluster's own DNS, which everybody asks. What one tenant publishes there must not break
// it for the others.

const CONFIG_MAPS = "/api/v1/namespaces/kube-system/configmaps";
const COREFILE = `.:53 {
    ready
    forward . /etc/resolv.conf
    reload
}
`;
const OURS = "# BEGIN switchback coredns: x\n.:53 {\n}\n# END switchback coredns\n";
const PUBLISHER = `${NAMESPACE}/switchback-publisher-coredns`;
/** No CoreDNS serves the Corefile of this API server, so readers get no answer. */
const SILENT: Readers = { tagOf: (revision) => revision, ask: async () => new Set([NO_ANSWER]) };

/** The configuration that these attacks need. */
export const CONFIG = { publishers: { coredns: { enabled: true } } };

export const ATTACKS: readonly Attack[] = [
  {
    name: "names for everybody's DNS",
    by: "tenant",
    async run(stage) {
      const { system } = stage;
      const bed = new CoreDnsBed();
      await createCorefile(system);
      const publisher = await startPublisher(
        system,
        "coredns",
        (publishers, client) => new CorednsPublisher(publishers.coredns, client, SILENT),
      );
      try {
        await until("the neighbour's name", async () => (await corefile(system)).includes(NEIGHBOUR_NAME));
        const own = (index: number) => `a.zone-${index}.example.net`;
        const deep = (index: number) => `${index}.${"a.".repeat(110)}example.net`.slice(-253);
        await createIngress(
          stage,
          "zones",
          Array.from({ length: 1_000 }, (_, index) => (index % 2 === 0 ? own(index) : deep(index))),
        );
        await until("a name of the tenant's", async () => (await corefile(system)).includes(own(0)));
        await stage.check();
        const text = await corefile(system);
        assert.ok(text.endsWith(COREFILE));
        const server = await bed.server("cluster", (port, ready) =>
          text.replaceAll(":53 {", `:${port} {\n    bind ${LOCAL}`).replace("    ready\n", `    ready ${ready}\n`),
        );
        const addresses = (await system.published()).get(NEIGHBOUR_NAME);
        const answers = [await query(server, NEIGHBOUR_NAME, "A"), await query(server, NEIGHBOUR_NAME, "AAAA")];
        const answered = answers.flatMap((answer) => answer.addresses);
        assert.deepEqual(new Set(answered), new Set(addresses));
        await sweep(stage);
        await until("the tenant's names to be gone", async () => !(await corefile(system)).includes(".example.net"));
        assert.ok((await corefile(system)).includes(NEIGHBOUR_NAME));
      } finally {
        await publisher.stop();
        await bed.stop();
        await deleteCorefile(system);
      }
      return {
        tried: "an Ingress of 1,000 hosts with a zone of their own each, or 112 labels",
        outcome: "CoreDNS starts with the Corefile and answers the neighbour's name",
      };
    },
  },
  {
    name: "publisher's token",
    by: "stolen token",
    async run(stage) {
      await createCorefile(stage.system);
      try {
        return await denied(stage, PUBLISHER, [...NOBODYS_TRIES, ...PUBLISHER_TRIES]);
      } finally {
        await deleteCorefile(stage.system);
      }
    },
  },
];

const change = (what: string, body: object) => ({
  what,
  method: "PATCH",
  path: `${CONFIG_MAPS}/coredns`,
  body,
  contentType: MERGE,
});

const PUBLISHER_TRIES = [
  MAP_TRY,
  change("the Corefile beside its part", { data: { Corefile: `${OURS}${COREFILE}# more\n` } }),
  change("no Corefile", { data: { Corefile: null } }),
  change("another key", { data: { other: "x" } }),
  change("a finalizer", { metadata: { finalizers: ["example.com/kept"] } }),
  { what: "deletion of the Corefile", method: "DELETE", path: `${CONFIG_MAPS}/coredns`, body: undefined },
  {
    what: "another ConfigMap beside it",
    method: "POST",
    path: CONFIG_MAPS,
    body: { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "coredns-custom" } },
  },
  {
    what: "a Service of the release",
    method: "POST",
    path: `/api/v1/namespaces/${NAMESPACE}/services`,
    body: { apiVersion: "v1", kind: "Service", metadata: { name: "forged" }, spec: { ports: [{ port: 53 }] } },
  },
];

async function createCorefile(system: System): Promise<void> {
  const body = { metadata: { name: "coredns" }, data: { Corefile: COREFILE } };
  const path = `${CONFIG_MAPS}?fieldManager=kubeadm`;
  assert.equal((await system.cluster.call({ method: "POST", path, body })).status, 201);
}

async function deleteCorefile(system: System): Promise<void> {
  await system.cluster.call({ method: "DELETE", path: `${CONFIG_MAPS}/coredns` });
}

async function corefile(system: System): Promise<string> {
  const { body } = await system.cluster.call({ path: `${CONFIG_MAPS}/coredns` });
  return (body as { data: Readonly<Record<string, string>> }).data.Corefile ?? "";
}
