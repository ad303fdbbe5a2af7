import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { query, TYPES, type TypeName } from "#test/fakes/dns-message.ts";
import { type CoreDns, CoreDnsBed, LOCAL } from "#test/integration/coredns.ts";
import { cpuOf } from "#tools/bench/process.ts";
import { parseCorefile } from "../corefile.ts";
import { markedBlock, splitMarked } from "../marked-block.ts";
import type { PublisherMap } from "../publisher-map.ts";
import { healthNameOf, renderServerBlocks, tagOf } from "../server-blocks.ts";
import { type ServerZones, serverZones } from "../server-zones.ts";

// Real CoreDNS with a cluster's Corefile: with our blocks in it, with our blocks in an imported file, and unchanged.

const RELAY = "198.51.100.9";
const OTHER = "198.51.100.10";
const SIX = "2001:db8::9";
const PUBLIC = "192.0.2.80";
const STUB = "192.0.2.99";

const WILDCARDS = 1_000;
/** Of the longest labels, in the zone of a wildcard of one label, so that it does not have our address. */
const LONG_NAME = `${`${"x".repeat(60)}.`.repeat(3)}t7.zones.corp.test`;
const ROUNDS = 10;
const LOOK_UPS = 100;

const zone = (origin: string) => `$ORIGIN ${origin}
@ 60 IN SOA ns.example.com. hostmaster.example.com. 1 3600 600 86400 60
@ 60 IN NS ns.example.com.
@ 60 IN A ${PUBLIC}
@ 60 IN TXT "v=spf1 -all"
@ 60 IN MX 10 mail.example.com.
@ 60 IN CAA 0 issue "letsencrypt.org"
shop 60 IN A ${PUBLIC}
shop 60 IN AAAA 2001:db8::80
shop 60 IN TXT "text"
shop 60 IN CAA 0 issue "letsencrypt.org"
shop 60 IN HTTPS 1 . alpn=h2
_acme-challenge.shop 60 IN TXT "token"
other 60 IN A ${PUBLIC}
deep.wild 60 IN A ${PUBLIC}
a.b.any 60 IN TXT "any"
stub.inner 60 IN A ${PUBLIC}
`;

const MAP = {
  revision: "r1",
  entries: [
    ["shop.corp.test", [RELAY]],
    ["both.corp.test", [SIX, RELAY]],
    ["six.corp.test", [SIX]],
    ["corp.test", [OTHER]],
    ["exact.wild.corp.test", [OTHER]],
    ["*.wild.corp.test", [RELAY]],
    ["exact.any.corp.test", [OTHER]],
    ["*.any.corp.test", [RELAY]],
    ["**.any.corp.test", [RELAY]],
    ["**.b.any.corp.test", [OTHER]],
    ["stub.inner.corp.test", [RELAY]],
    ["owned.corp.test", [RELAY]],
    ...Array.from({ length: 5_000 }, (_, at) => [`n${at}.many.corp.test`, [RELAY]] as const),
    ...Array.from(
      { length: WILDCARDS },
      (_, at) => [`${at % 2 ? "*" : "**"}.t${at}.zones.corp.test`, [RELAY]] as const,
    ),
  ],
} as const;

/**
 * Questions of DNS-01 about mapped names that have answers. Without them, answers could be equal because all are
 * empty.
 */
const ANSWERED: ReadonlyArray<readonly [string, TypeName]> = [
  ["shop.corp.test", "TXT"],
  ["shop.corp.test", "CAA"],
  ["_acme-challenge.shop.corp.test", "TXT"],
  ["corp.test", "SOA"],
  ["corp.test", "NS"],
  ["corp.test", "TXT"],
  ["corp.test", "CAA"],
];

const OTHER_MAP: PublisherMap = {
  revision: "r2",
  entries: [
    ["shop.corp.test", [OTHER]],
    ["only.corp.test", [OTHER]],
  ],
};

let bed: CoreDnsBed;
let plain: CoreDns;
/** Both publishers in one CoreDNS, with different maps. */
let both: CoreDns;
const servers = new Map<string, CoreDns>();

/** As in k3s: `hosts` in the block of the root, stub domains, snippets, imports. */
function corefile(port: number, ready: string, upstream: CoreDns, imported: string): string {
  return `# The cluster's own.
(common) {
    errors
    reload 2s
}
.:${port} {
    import common
    bind ${LOCAL}
    ready ${ready}
    hosts ${bed.folder}/node-hosts {
        ttl 60
        fallthrough
    }
    forward . ${LOCAL}:${upstream.port}
    cache 30
}
inner.corp.test:${port} owned.corp.test:${port} {
    bind ${LOCAL}
    template IN A {
        answer "{{ .Name }} 60 IN A ${STUB}"
    }
}
${imported}`;
}

function zonesOf(text: string): ServerZones {
  const parsed = parseCorefile(text);
  assert.ok(typeof parsed !== "string", String(parsed));
  return serverZones(parsed);
}

function blocksOf(publisher: string, { listen, taken }: ServerZones, map: PublisherMap = MAP) {
  assert.ok(listen !== undefined);
  const options = { publisher, first: publisher === "coredns", maxBytes: 900_000, listen, taken };
  const { text, ...counts } = renderServerBlocks(map, options);
  return { ...counts, text: markedBlock(text, publisher, "for a test") };
}

/** A Corefile that imports our blocks from a folder. */
function importing(folder: string, rest: string, map?: PublisherMap) {
  const whole = `${rest}import ${bed.folder}/${folder}/*.server\n`;
  const { text, elsewhere } = blocksOf("coredns-import", zonesOf(whole), map);
  mkdirSync(join(bed.folder, folder), { recursive: true });
  writeFileSync(join(bed.folder, folder, "switchback.server"), text);
  return { whole, elsewhere };
}

before(async () => {
  bed = new CoreDnsBed();
  writeFileSync(join(bed.folder, "node-hosts"), "192.0.2.7 node-1\n");
  const upstream = await bed.upstream("upstream", { "corp.test.": zone("corp.test.") });
  plain = await bed.server("plain", (port, ready) => corefile(port, ready, upstream, ""));
  const inIt = await bed.server("coredns", (port, ready) => {
    const rest = corefile(port, ready, upstream, "");
    const zones = zonesOf(rest);
    assert.deepEqual([zones.listen, zones.reloads], [{ port, bind: [LOCAL] }, true]);
    const whole = blocksOf("coredns", zones).text + rest;
    const { before: head, after: tail } = splitMarked(whole, "coredns");
    assert.equal(head + tail, rest);
    return whole;
  });
  const imported = await bed.server("coredns-import", (port, ready) => {
    const { whole, elsewhere } = importing("custom", corefile(port, ready, upstream, ""));
    assert.equal(elsewhere, 1);
    return whole;
  });
  both = await bed.server("both", (port, ready) => {
    const rest = corefile(port, ready, upstream, "");
    return importing("beside", blocksOf("coredns", zonesOf(rest)).text + rest, OTHER_MAP).whole;
  });
  servers.set("coredns", inIt).set("coredns-import", imported);
});
after(() => bed.stop());

for (const name of ["coredns", "coredns-import"]) {
  describe(`the blocks of ${name}`, () => {
    const server = () => servers.get(name) ?? assert.fail();
    const addressesOf = async (host: string, type: TypeName = "A") => (await query(server(), host, type)).addresses;

    it("answer A and AAAA of the names, in any case and by TCP", async () => {
      assert.deepEqual(await addressesOf("shop.corp.test"), [RELAY]);
      assert.deepEqual(await addressesOf("SHOP.Corp.Test"), [RELAY]);
      assert.deepEqual((await query(server(), "shop.corp.test", "A", { tcp: true })).addresses, [RELAY]);
      assert.deepEqual(await addressesOf("both.corp.test"), [RELAY]);
      assert.deepEqual(await addressesOf("both.corp.test", "AAAA"), [SIX]);
      assert.deepEqual(await addressesOf("corp.test"), [OTHER]);
      for (const at of [0, 3_999, 4_000, 4_999]) assert.deepEqual(await addressesOf(`n${at}.many.corp.test`), [RELAY]);
      assert.deepEqual((await query(server(), "shop.corp.test", "A")).ttls, [5]);
    });

    it("have no record if a name lacks the address family, instead of the upstream's record", async () => {
      for (const [host, type] of [
        ["shop.corp.test", "AAAA"],
        ["six.corp.test", "A"],
      ] as const) {
        const { rcode, records } = await query(server(), host, type);
        assert.deepEqual([rcode, records], [0, []], host);
      }
    });

    it("answer the health name with the tag of the revision", async () => {
      assert.deepEqual(await addressesOf(healthNameOf(name)), [tagOf("r1")]);
    });

    it("have wildcards of one label and of any number, and prefer exact names and nearer wildcards", async () => {
      const expected: Record<string, string> = {
        "a.wild.corp.test": RELAY,
        "exact.wild.corp.test": OTHER,
        "a.any.corp.test": RELAY,
        "a.x.any.corp.test": RELAY,
        "exact.any.corp.test": OTHER,
        "a.b.any.corp.test": OTHER,
      };
      for (const [host, address] of Object.entries(expected))
        assert.deepEqual(await addressesOf(host), [address], host);
    });

    it("do not change any other answer", async () => {
      for (const [host, type] of ANSWERED) assert.notDeepEqual((await query(plain, host, type)).records, [], host);
      const hosts = ["shop.corp.test", "_acme-challenge.shop.corp.test", "corp.test", "a.b.any.corp.test"];
      const others = ["other.corp.test", "none.corp.test", "deep.wild.corp.test", "wild.corp.test", "many.corp.test"];
      const questions: Array<readonly [string, TypeName]> = [
        ...hosts.flatMap((host) =>
          (Object.keys(TYPES) as TypeName[])
            .filter((type) => !["A", "AAAA", "OPT"].includes(type))
            .map((type) => [host, type] as const),
        ),
        ...others.filter((host) => host !== "deep.wild.corp.test").map((host) => [host, "A"] as const),
        ["node-1", "A"],
        ["example.net", "A"],
        ["x.n1.many.corp.test", "A"],
        ["a.inner.corp.test", "A"],
      ];
      for (const [host, type] of questions) {
        const [ours, before] = [await query(server(), host, type), await query(plain, host, type)];
        assert.deepEqual(
          [ours.rcode, ours.records.map(withoutTtl)],
          [before.rcode, before.records.map(withoutTtl)],
          `${host} ${type}`,
        );
      }
    });
  });
}

it("names in a zone of the Corefile get separate blocks; coredns-import leaves out the zone itself", async () => {
  const ask = async (name: string, host: string) =>
    (await query(servers.get(name) ?? assert.fail(), host, "A")).addresses;
  for (const name of servers.keys()) {
    assert.deepEqual(await ask(name, "stub.inner.corp.test"), [RELAY]);
    assert.deepEqual(await ask(name, "a.inner.corp.test"), [STUB]);
  }
  assert.deepEqual(await ask("coredns", "owned.corp.test"), [RELAY]);
  assert.deepEqual(await ask("coredns-import", "owned.corp.test"), [STUB]);
});

it("with both publishers, blocks in the Corefile itself come first, and each has its own health name", async () => {
  const ask = async (host: string) => (await query(both, host, "A")).addresses;
  assert.deepEqual(await ask("shop.corp.test"), [RELAY]);
  assert.deepEqual(await ask("only.corp.test"), [OTHER]);
  assert.deepEqual(await ask(healthNameOf("coredns")), [tagOf("r1")]);
  assert.deepEqual(await ask(healthNameOf("coredns-import")), [tagOf("r2")]);
  for (const [host, type] of ANSWERED) {
    const [answer, before] = [await query(both, host, type), await query(plain, host, type)];
    assert.deepEqual(answer.records.map(withoutTtl), before.records.map(withoutTtl), `${host} ${type}`);
  }
});

it("a look-up of a long name beside wildcards gets the same answer; what it costs CoreDNS is printed", async (t) => {
  const beside = servers.get("coredns") ?? assert.fail();
  const [ours, theirs] = [await query(beside, LONG_NAME, "A"), await query(plain, LONG_NAME, "A")];
  assert.deepEqual([ours.rcode, ours.addresses], [theirs.rcode, []]);
  const ratios: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) ratios.push((await costOf(beside)) / (await costOf(plain)));
  const median = ratios.sort((a, b) => a - b)[ROUNDS / 2] ?? 0;
  t.diagnostic(`CPU time of a look-up with ${WILDCARDS} wildcards, to that without: ${median.toFixed(2)}`);
  assert.ok(median > 0);
});

/** CPU time that a server needs for look-ups of the long name. */
async function costOf(server: CoreDns): Promise<number> {
  const before = cpuOf(server.process.pid);
  for (let count = 0; count < LOOK_UPS; count += 1) await query(server, LONG_NAME, "A");
  return cpuOf(server.process.pid) - before;
}

/** A record without its TTL, which the cache of the cluster's own block counts down. */
function withoutTtl(record: string): string {
  return record.replace(/\b\d+\b/, "");
}
