import assert from "node:assert/strict";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, before, describe, it } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { settingsOf } from "#lib/config/sections.ts";
import { type ConnectedClient, connect } from "#lib/kube/connect.ts";
import { binary } from "#test/cluster/binaries.ts";
import { type ControlPlane, startControlPlane } from "#test/cluster/controlplane.ts";
import { runTool } from "#test/cluster/tools.ts";
import { query, type TypeName } from "#test/fakes/dns-message.ts";
import { DNS_TOOLS, type DnsTool } from "#test/fakes/dns-tools.ts";
import { type CoreDns, CoreDnsBed, LOCAL } from "#test/integration/coredns.ts";
import { PUBLISHERS_SECTION } from "../config.ts";
import { CorednsPublisher } from "../coredns.ts";

// Migration from hairpin-proxy, hairpin-proxy-gen2 and ouroboros. The publisher works beside what each of them leaves
// in the cluster's DNS. The command of docs/migrating.md removes exactly that, and DNS-01 gets its records again. With
// real kubectl, API server and CoreDNS.

const NAME = "shop.corp.test";
const RELAY = "198.51.100.9";
const OTHER_PROXY = "198.51.100.66";
const PUBLIC = "192.0.2.80";
const TYPES: readonly TypeName[] = ["TXT", "CAA", "MX"];
const ZONE = `$ORIGIN corp.test.
@ 60 IN SOA ns.corp.test. nobody.invalid. 1 3600 600 86400 60
shop 60 IN A ${PUBLIC}
shop 60 IN TXT "token"
shop 60 IN CAA 0 issue "letsencrypt.org"
shop 60 IN MX 10 mail.corp.test.
`;
const PROXIES = `$ORIGIN cluster.local.
@ 60 IN SOA ns.cluster.local. nobody.invalid. 1 5 5 5 5
${[...new Set(DNS_TOOLS.map(({ proxy }) => `${proxy}. 60 IN A ${OTHER_PROXY}\n`))].join("")}`;
const PATH = "/api/v1/namespaces/kube-system/configmaps";
const PAGE = readFileSync(new URL("../../../docs/migrating.md", import.meta.url), "utf8");
const CUSTOM = { "theirs.override": "# theirs\n" };

let cluster: ControlPlane;
let client: ConnectedClient;
let bed: CoreDnsBed;
let upstream: CoreDns;
let expected: unknown;

before(async () => {
  cluster = await startControlPlane({ controllerManager: false });
  client = await connect({ kubeconfig: cluster.adminKubeconfig });
  bed = new CoreDnsBed();
  upstream = await bed.upstream("upstream", { "corp.test.": ZONE, "cluster.local.": PROXIES });
  expected = await others(upstream);
});
after(async () => {
  client?.close();
  await Promise.all([bed?.stop(), cluster?.stop()]);
});

/** As in k3s: the files in `custom` are imported into the server block of the root. */
const original = () => `.:53 {
    errors
    bind ${LOCAL}
    import ${bed.folder}/custom/*.override
    forward . ${LOCAL}:${upstream.port}
    reload
}
`;

const addresses = async (server: CoreDns) => (await query(server, NAME, "A")).addresses;
const others = (server: CoreDns) =>
  Promise.all(TYPES.map(async (type) => [type, (await query(server, NAME, type)).records] as const));

async function write(name: string, data: Readonly<Record<string, string>>): Promise<void> {
  await cluster.call({ method: "DELETE", path: `${PATH}/${name}` });
  const { status } = await cluster.call({ method: "POST", path: PATH, body: { metadata: { name }, data } });
  assert.equal(status, 201);
}

async function read(name: string): Promise<Readonly<Record<string, string>>> {
  const { body } = await cluster.call({ path: `${PATH}/${name}` });
  return (body as { data?: Readonly<Record<string, string>> }).data ?? {};
}

/** Starts a CoreDNS on a separate port, with the current files of the cluster's DNS. */
async function asItIs(name: string): Promise<CoreDns> {
  const custom = join(bed.folder, "custom");
  rmSync(custom, { recursive: true, force: true });
  mkdirSync(custom);
  for (const [key, text] of Object.entries(await read("coredns-custom"))) writeFileSync(join(custom, key), text);
  const { Corefile = "" } = await read("coredns");
  return await bed.server(name, (port, ready) =>
    Corefile.replaceAll(":53 {", `:${port} {`).replace("    reload", `    reload\n    ready ${ready}`),
  );
}

/** The command of docs/migrating.md that removes a tool's lines. */
function commandOf({ tool, key }: DnsTool): string {
  const [, section = ""] = PAGE.split(`\n## ${tool}\n`);
  const removes = key === undefined ? " configmap coredns -o yaml | sed " : " patch configmap coredns-custom ";
  const line = section.split("\n").find((each) => each.startsWith("    kubectl ") && each.includes(removes)) ?? "";
  return line.replace("ouroboros.override", key ?? "");
}

async function runCommand(command: string): Promise<void> {
  const path = `${dirname(await binary("kubectl"))}:${process.env.PATH}`;
  const env = { PATH: path, KUBECONFIG: cluster.adminKubeconfig, HOME: bed.folder };
  const { code, stderr } = await runTool("/bin/sh", ["-c", command], env);
  assert.equal(code, 0, stderr);
}

async function leave({ key, write: text }: DnsTool): Promise<void> {
  const names = [NAME, "unmapped.corp.test"];
  await write("coredns", { Corefile: key === undefined ? text(original(), names) : original(), other: "kept" });
  await write("coredns-custom", key === undefined ? CUSTOM : { ...CUSTOM, [key]: text("", names) });
}

for (const tool of DNS_TOOLS) {
  const what = `${tool.tool}, key ${tool.key ?? "Corefile"}`;
  describe(what, () => {
    it("the publisher works beside it, the page's command removes it, and DNS-01 works as before", async () => {
      await leave(tool);
      const alone = await asItIs(`${what} alone`);
      assert.deepEqual(await addresses(alone), [OTHER_PROXY], "the leftovers work");
      assert.notDeepEqual(await others(alone), expected, "they answer every type");

      const publisher = new CorednsPublisher(settingsOf(parseConfig({}), PUBLISHERS_SECTION).coredns, client);
      const outcome = await publisher.publish({ revision: "r1", entries: [[NAME, [RELAY]]] });
      assert.deepEqual(outcome, { names: 1, leftOut: 0 });
      assert.deepEqual(await addresses(await asItIs(`${what} beside`)), [RELAY]);

      await runCommand(commandOf(tool) || "exit 1");
      assert.deepEqual(await publisher.presence(), { kind: "as-written" });
      const moved = await asItIs(`${what} moved`);
      assert.deepEqual([await addresses(moved), await others(moved)], [[RELAY], expected]);

      await publisher.remove();
      // Two of the tools remove white space at the end of the file.
      const { Corefile = "", ...rest } = await read("coredns");
      assert.deepEqual([Corefile.trimEnd(), rest], [original().trimEnd(), { other: "kept" }]);
      assert.deepEqual(await read("coredns-custom"), CUSTOM);
    });
  });
}
