import assert from "node:assert/strict";
import { test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { settingsOf } from "#lib/config/sections.ts";
import { MemoryServer } from "#test/fakes/memory-server.ts";
import { PUBLISHERS_SECTION } from "./config.ts";
import { CorednsImportPublisher } from "./coredns-import.ts";

const MAPS = "/api/v1/namespaces/kube-system/configmaps";
const CORE = "    errors\n    forward . /etc/resolv.conf\n    reload\n";
/** As in Cozystack. */
const INSIDE = `.:53 {\n${CORE}    import /etc/coredns/custom/*.override\n    loadbalance\n}\n`;
/** As in AKS. */
const BOTH = `.:53 {\n${CORE}    import custom/*.override\n}\nimport custom/*.server\n`;
const MAP = { revision: "r1", entries: [["shop.example.com", ["198.51.100.9"]]] } as const;

/** The text in the key after a publication, and the problem that the publisher reports. */
async function published(corefile: string, key: string) {
  const server = new MemoryServer();
  server.add(MAPS, "coredns", { data: { Corefile: corefile } });
  server.add(MAPS, "coredns-custom", { data: { "theirs.override": "log {", "theirs.server": "a.test {\n}\n" } });
  const publishers = { corednsImport: { key } };
  const { corednsImport } = settingsOf(parseConfig({ publishers }, [PUBLISHERS_SECTION]), PUBLISHERS_SECTION);
  const publisher = new CorednsImportPublisher(corednsImport, server.client);
  const { problem } = await publisher.publish(MAP);
  const { data } = server.objects.get(`${MAPS}/coredns-custom`) as unknown as { data: Record<string, string> };
  return { text: data[key], problem };
}

for (const [what, corefile] of [
  ["inside of the block of the root alone", INSIDE],
  ["inside and beside", BOTH],
] as const) {
  test(`a Corefile that imports *.override ${what} gets plugins, and no server block`, async () => {
    const { text = "", problem } = await published(corefile, "switchback.override");
    assert.equal(problem, undefined);
    assert.match(text, /^# BEGIN switchback coredns-import: 1 names, revision r1\. Do not edit\.\n/);
    assert.match(text, /\n {4}template IN A \. \{\n {8}match "\^\(\?:shop\[\.\]example\[\.\]com\)\[\.\]\$"\n/);
    assert.doesNotMatch(text, /view|:53/);
  });
}

test("*.server of a Corefile with both imports gets server blocks", async () => {
  const { text = "" } = await published(BOTH, "switchback.server");
  assert.match(text, /\nexample\.com:53 \{\n {4}view /);
});

for (const [what, corefile, key, why] of [
  [
    "is imported nowhere",
    INSIDE,
    "switchback.server",
    /does not import switchback\.server beside its server blocks, or/,
  ],
  ["is imported by another block", `.:53 {\n${CORE}}\na.test {\n import *.override\n}\n`, "a.override", /imports \*\./],
  [
    "is imported twice",
    `.:53 {\n${CORE} import c/a*\n}\nimport c/a*\n`,
    "a",
    /imports a both beside its server blocks and inside/,
  ],
] as const) {
  test(`a key that ${what} is not written`, async () => {
    const { text, problem } = await published(corefile, key);
    assert.deepEqual([text, problem?.code], [undefined, "publisher-not-imported"]);
    assert.match(problem?.text ?? "", why);
  });
}
