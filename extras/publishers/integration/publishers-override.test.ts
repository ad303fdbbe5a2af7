import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { query, TYPES, type TypeName } from "#test/fakes/dns-message.ts";
import { type CoreDns, CoreDnsBed, LOCAL } from "#test/integration/coredns.ts";
import { importedZones } from "../imported-zones.ts";
import { markedBlock } from "../marked-block.ts";
import { renderRootTemplates } from "../root-templates.ts";
import { healthNameOf, tagOf } from "../server-blocks.ts";

// Real CoreDNS whose Corefile imports `*.override` inside its server block, as in AKS and Cozystack, with our file
// and without it.

const RELAY = "198.51.100.9";
const OTHER = "198.51.100.10";
const SIX = "2001:db8::9";
const PUBLIC = "192.0.2.80";
const OWN = "switchback.override";
const ZONE = `$ORIGIN corp.test.
@ 60 IN SOA ns.example.com. hostmaster.example.com. 1 3600 600 86400 60
@ 60 IN NS ns.example.com.
@ 60 IN A ${PUBLIC}
@ 60 IN CAA 0 issue "letsencrypt.org"
shop 60 IN A ${PUBLIC}
shop 60 IN AAAA 2001:db8::80
shop 60 IN TXT "text"
_acme-challenge.shop 60 IN TXT "token"
other 60 IN A ${PUBLIC}
deep.wild 60 IN A ${PUBLIC}
`;
const MAP = {
  revision: "r1",
  entries: [
    ["shop.corp.test", [RELAY]],
    ["both.corp.test", [SIX, RELAY]],
    ["corp.test", [OTHER]],
    ["exact.any.corp.test", [OTHER]],
    ["*.wild.corp.test", [RELAY]],
    ["**.any.corp.test", [RELAY]],
    ["**.b.any.corp.test", [OTHER]],
    ["in.stub.test", [RELAY]],
    ...Array.from({ length: 1_900 }, (_, at) => [`n${at}.many.corp.test`, [RELAY]] as const),
  ],
} as const;

let bed: CoreDnsBed;
let plain: CoreDns;
const servers = new Map<string, CoreDns>();

/** The start of both Corefiles: a cluster's plugins, without the one that needs an API server. */
const core = (port: number, ready: string, upstream: CoreDns) => `.:${port} {
    errors
    bind ${LOCAL}
    ready ${ready}
    hosts ${bed.folder}/node-hosts {
        fallthrough
    }
    forward . ${LOCAL}:${upstream.port}
    cache 30
    reload 2s`;
const stub = (port: number) => `stub.test:${port} {
    bind ${LOCAL}
    template IN A {
        answer "{{ .Name }} 60 IN A 192.0.2.99"
    }
}
`;
/** learn.microsoft.com/azure/aks/coredns-custom: AKS has its own templates after the import. */
const ofAks = (folder: string, port: number, start: string) => `${start}
    loadbalance
    import ${folder}/*.override
    template ANY ANY internal.cloudapp.net {
        match "^(?:[^.]+\\.){4,}internal\\.cloudapp\\.net\\.$"
        rcode NXDOMAIN
        fallthrough
    }
    template ANY ANY reddog.microsoft.com {
        rcode NXDOMAIN
    }
}
import ${folder}/*.server
${stub(port)}`;
const ofCozystack = (folder: string, port: number, start: string) => `${start}
    import ${folder}/*.override
    loadbalance
}
${stub(port)}`;

before(async () => {
  bed = new CoreDnsBed();
  writeFileSync(join(bed.folder, "node-hosts"), "192.0.2.7 node-1\n");
  const upstream = await bed.upstream("upstream", { "corp.test.": ZONE });
  const start = (name: string, form: typeof ofAks, isOurs: boolean) =>
    bed.server(name, (port, ready) => {
      const folder = join(bed.folder, `${name}-custom`);
      mkdirSync(folder, { recursive: true });
      const corefile = form(folder, port, core(port, ready, upstream));
      const zones = importedZones({ corefilePlace: "c", filesPlace: "f", corefile, files: {}, own: OWN });
      assert.ok(!("code" in zones) && zones.isInside, JSON.stringify(zones));
      const options = { publisher: "coredns-import", taken: zones.taken, maxBytes: 900_000 };
      const { text, names, elsewhere } = renderRootTemplates(MAP, options);
      assert.deepEqual([names, elsewhere], [MAP.entries.length - 1, 1]);
      if (isOurs) writeFileSync(join(folder, OWN), markedBlock(text, "coredns-import", "for a test"));
      return corefile;
    });
  plain = await start("plain", ofAks, false);
  servers.set("AKS", await start("aks", ofAks, true)).set("Cozystack", await start("cozystack", ofCozystack, true));
});
after(() => bed?.stop());

for (const name of ["AKS", "Cozystack"]) {
  describe(`our file in a Corefile like that of ${name}`, () => {
    const server = () => servers.get(name) ?? assert.fail();
    const addressesOf = async (host: string, type: TypeName = "A") => (await query(server(), host, type)).addresses;

    it("answers A and AAAA of the names, in any case and by TCP, and has no record of a missing family", async () => {
      assert.deepEqual(await addressesOf("shop.corp.test"), [RELAY]);
      assert.deepEqual(await addressesOf("SHOP.Corp.Test"), [RELAY]);
      assert.deepEqual((await query(server(), "shop.corp.test", "A", { tcp: true })).addresses, [RELAY]);
      assert.deepEqual(await addressesOf("both.corp.test", "AAAA"), [SIX]);
      const { rcode, records } = await query(server(), "shop.corp.test", "AAAA");
      assert.deepEqual([rcode, records], [0, []]);
      for (const at of [0, 99, 100, 1_899]) assert.deepEqual(await addressesOf(`n${at}.many.corp.test`), [RELAY]);
      assert.deepEqual(await addressesOf(healthNameOf("coredns-import")), [tagOf("r1")]);
    });

    it("prefers exact names and nearer wildcards", async () => {
      const expected: Record<string, string> = {
        "a.wild.corp.test": RELAY,
        "a.any.corp.test": RELAY,
        "a.x.any.corp.test": RELAY,
        "exact.any.corp.test": OTHER,
        "a.b.any.corp.test": OTHER,
      };
      for (const [host, address] of Object.entries(expected))
        assert.deepEqual(await addressesOf(host), [address], host);
    });

    it("does not change any other answer, except to ANY of its names", async () => {
      const types = (Object.keys(TYPES) as TypeName[]).filter((type) => !["A", "AAAA", "OPT", "ANY"].includes(type));
      const mapped = ["shop.corp.test", "_acme-challenge.shop.corp.test", "corp.test"];
      const others = ["other.corp.test", "none.corp.test", "deep.a.wild.corp.test", "node-1", "in.stub.test"];
      const questions = [
        ...mapped.flatMap((host) => types.map((type) => [host, type] as const)),
        ...[...others, "x.n1.many.corp.test", "example.net"].map((host) => [host, "A"] as const),
        ...(name === "AKS" ? [["x.reddog.microsoft.com", "A"] as const] : []),
      ];
      for (const [host, type] of questions) {
        const [ours, before] = [await query(server(), host, type), await query(plain, host, type)];
        const records = [ours, before].map((answer) => answer.records.map((record) => record.replace(/\b\d+\b/, "")));
        assert.deepEqual([ours.rcode, records[0]], [before.rcode, records[1]], `${host} ${type}`);
      }
      assert.equal((await query(server(), "shop.corp.test", "TXT")).records.length, 1);
    });
  });
}
