import assert from "node:assert/strict";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { protectNames } from "#hostmap/protected-names.ts";
import { query, type TypeName } from "#test/fakes/dns-message.ts";
import { type CoreDns, CoreDnsBed, LOCAL } from "#test/integration/coredns.ts";
import { until } from "#test/integration/system.ts";
import { dnsMapOf } from "../fakes/dns-map.ts";
import { DNS_HEALTH_NAME } from "../health-name.ts";
import { MapFiles } from "../map-files.ts";
import { startResolver } from "./start-resolver.ts";

// A real CoreDNS with the product's Corefile and files, and another one as the DNS of the cluster.

const RELAY = "198.51.100.9";
const OTHER = "198.51.100.10";
const SIX = "2001:db8::9";
const PUBLIC = "192.0.2.80";
const NXDOMAIN = 3;

/** A zone with every type at its apex, because SOA and NS exist only there. */
const zone = (name: string) => `$ORIGIN ${name}
@ 60 IN SOA ns.example.com. hostmaster.example.com. 1 3600 600 86400 60
@ 60 IN NS ns.example.com.
@ 60 IN A ${PUBLIC}
@ 60 IN AAAA 2001:db8::80
@ 60 IN TXT "v=spf1 -all"
@ 60 IN MX 10 mail.example.com.
@ 60 IN CAA 0 issue "letsencrypt.org"
@ 60 IN HTTPS 1 . alpn=h2
@ 60 IN SVCB 1 . alpn=h2
_acme-challenge 60 IN TXT "token"
_443._tcp 60 IN SRV 0 0 443 mail.example.com.
* 60 IN A ${PUBLIC}
long 60 IN TXT ${Array.from({ length: 12 }, (_, at) => `"${String(at).repeat(200).slice(0, 200)}"`).join(" ")}
`;

const MAPPED: ReadonlyMap<string, readonly string[]> = new Map([
  ["shop.test", [RELAY]],
  ["both.test", [RELAY, SIX]],
  ["exact.wild.test", [OTHER]],
  ["*.wild.test", [RELAY]],
  ["*.deep.test", [RELAY]],
  ["**.deep.test", [RELAY]],
  ["exact.deep.test", [OTHER]],
  ["*.inner.far.deep.test", [OTHER]],
  ["**.inner.far.deep.test", [OTHER]],
  // A wildcard above the domain of the cluster.
  ["*.corp.test", [RELAY]],
  ["**.corp.test", [RELAY]],
]);

let bed: CoreDnsBed;
let upstream: CoreDns;
let resolver: CoreDns;
let files: MapFiles;
let directory: string;

before(async () => {
  bed = new CoreDnsBed();
  const names = ["shop.test.", "both.test.", "wild.test.", "deep.test.", "corp.test.", "elsewhere.test."];
  upstream = await bed.upstream("upstream", Object.fromEntries(names.map((name) => [name, zone(name)])));
  directory = join(bed.folder, "files");
  mkdirSync(directory);
  files = new MapFiles({ directory, revision: "r1", seconds: () => 1 });
  await files.write(dnsMapOf("first", MAPPED));
  resolver = await startResolver(bed, "resolver", {
    directory,
    upstream: `${LOCAL}:${upstream.port}`,
    clusterDomains: ["k8s.corp.test"],
  });
});
after(() => bed.stop());

const addressesOf = async (name: string, type: TypeName = "A") => (await query(resolver, name, type)).addresses;

describe("a mapped name", () => {
  it("has our addresses", async () => {
    assert.deepEqual(await addressesOf("shop.test"), [RELAY]);
    assert.deepEqual(await addressesOf("both.test"), [RELAY]);
    assert.deepEqual(await addressesOf("both.test", "AAAA"), [SIX]);
    assert.deepEqual((await query(resolver, "shop.test", "A")).ttls, [5]);
  });

  it("has no address of a family for which the map has none, even if the upstream has one", async () => {
    const { rcode, addresses } = await query(resolver, "shop.test", "AAAA");
    assert.deepEqual([rcode, addresses], [0, []]);
    assert.deepEqual((await query(upstream, "shop.test", "AAAA")).addresses, ["2001:db8::80"]);
  });

  for (const type of ["TXT", "MX", "NS", "SOA", "CAA", "HTTPS", "SVCB", "ANY"] as const) {
    for (const name of ["shop.test", "a.wild.test", "b.a.deep.test"]) {
      it(`${name} has the upstream's ${type}`, async () => {
        const [ours, theirs] = [await query(resolver, name, type), await query(upstream, name, type)];
        assert.deepEqual([ours.rcode, ours.records], [theirs.rcode, theirs.records]);
        if (name === "shop.test" && type !== "ANY") assert.notEqual(ours.records.length, 0);
      });
    }
  }

  it("leaves challenges, services and names with underscores below it to the upstream", async () => {
    assert.equal((await query(resolver, "_acme-challenge.shop.test", "TXT")).records.length, 1);
    assert.equal((await query(resolver, "_443._tcp.shop.test", "SRV")).records.length, 1);
    assert.deepEqual(await addressesOf("_under_score.shop.test"), [PUBLIC]);
  });

  it("is found in upper and lower case, and the answer repeats the question as it was asked (0x20)", async () => {
    const answer = await query(resolver, "sHoP.tEsT", "A");
    assert.deepEqual([answer.question, answer.addresses], ["sHoP.tEsT.", [RELAY]]);
    assert.deepEqual(await addressesOf("A.b.DEEP.test"), [RELAY]);
  });

  it("is answered over TCP and with EDNS", async () => {
    assert.deepEqual((await query(resolver, "shop.test", "A", { tcp: true })).addresses, [RELAY]);
    assert.deepEqual((await query(resolver, "shop.test", "A", { edns: 1232 })).addresses, [RELAY]);
  });

  it("passes on a long answer of the upstream: truncated over UDP, complete over TCP and with EDNS", async () => {
    assert.equal((await query(resolver, "long.shop.test", "TXT")).truncated, true);
    const whole = await query(resolver, "long.shop.test", "TXT", { tcp: true });
    assert.deepEqual([whole.truncated, whole.records.length], [false, 1]);
    assert.equal((await query(resolver, "long.shop.test", "TXT", { edns: 4096 })).records.length, 1);
  });
});

describe("wildcards", () => {
  const CASES: ReadonlyArray<readonly [name: string, address: string, why: string]> = [
    ["a.wild.test", RELAY, "one label below an Ingress' wildcard"],
    ["exact.wild.test", OTHER, "an exact name wins"],
    ["b.a.wild.test", PUBLIC, "two labels below it: not covered"],
    ["wild.test", PUBLIC, "its apex is not covered"],
    ["a.deep.test", RELAY, "one label below a Gateway's wildcard"],
    ["c.b.a.deep.test", RELAY, "any number of labels below it"],
    ["_under_score.a.deep.test", RELAY, "underscores"],
    ["deep.test", PUBLIC, "its apex is not covered"],
    ["exact.deep.test", OTHER, "an exact name below it wins"],
    ["a.exact.deep.test", RELAY, "what is below an exact name is covered all the same"],
    ["a.inner.far.deep.test", OTHER, "the longer wildcard wins"],
    ["b.a.inner.far.deep.test", OTHER, "the longer wildcard wins, at any depth"],
    ["inner.far.deep.test", RELAY, "the longer one's apex is the shorter one's"],
    ["far.deep.test", RELAY, "a name between the two"],
    ["x.far.deep.test", RELAY, "a name beside the longer one"],
    ["y.x.far.deep.test", RELAY, "below a name beside the longer one"],
    ["a.corp.test", RELAY, "beside the domain of the cluster"],
    ["api.default.svc.k8s.corp.test", PUBLIC, "the cluster's own names are the upstream's"],
    ["elsewhere.test", PUBLIC, "not mapped"],
    ["a.elsewhere.test", PUBLIC, "not mapped"],
  ];
  for (const [name, address, why] of CASES) {
    it(`${name} leads to ${address}: ${why}`, async () => assert.deepEqual(await addressesOf(name), [address]));
  }

  it("at or above a search domain of pods, or above the cluster's domain, do not take other names", async () => {
    const own = join(bed.folder, "protected");
    mkdirSync(own);
    const protect = protectNames("k8s.corp.test", ["region.elsewhere.test"]);
    const claimed = ["**.elsewhere.test", "**.region.elsewhere.test", "*.region.elsewhere.test", "**.corp.test"];
    const map = dnsMapOf("r", new Map(claimed.map((name) => [name, [RELAY]])), protect);
    const leftOut = await new MapFiles({ directory: own, revision: "r", seconds: () => 1 }).write(map);
    assert.deepEqual([leftOut.count, leftOut.reason?.code], [3, "search-domain"]);
    // Without `clusterDomains`, only the files protect these names.
    const options = { directory: own, upstream: `${LOCAL}:${upstream.port}`, clusterDomains: [] };
    const one = await startResolver(bed, "protected", options);
    for (const name of ["api.github.com.region.elsewhere.test", "api.default.svc.k8s.corp.test"])
      assert.deepEqual((await query(one, name, "A")).addresses, [PUBLIC], name);
    assert.deepEqual((await query(one, "a.region.elsewhere.test", "A")).addresses, [RELAY]);
  });

  it("have no address of a family for which the map has none", async () => {
    for (const name of ["a.wild.test", "a.deep.test", "b.a.deep.test", "inner.far.deep.test"]) {
      const { rcode, addresses } = await query(resolver, name, "AAAA");
      assert.deepEqual([rcode, addresses], [0, []], name);
    }
  });
});

describe("while things change and fail", () => {
  it("only a server with the map answers the health name", async () => {
    assert.deepEqual(await addressesOf(DNS_HEALTH_NAME), ["127.0.0.1"]);
    assert.equal((await query(upstream, DNS_HEALTH_NAME, "A")).addresses.length, 0);
  });

  it("names and wildcards of both kinds are added and removed without a new Corefile", async () => {
    await files.write(dnsMapOf("second", new Map([...MAPPED, ["**.new.test", [OTHER]], ["fresh.test", [RELAY]]])));
    await until("the new name", async () => (await addressesOf("fresh.test")).includes(RELAY));
    await until("the new wildcard", async () => (await addressesOf("b.a.new.test")).includes(OTHER));
    await files.write(dnsMapOf("first", MAPPED));
    await until("the old names", async () => (await query(resolver, "fresh.test", "A")).addresses.length === 0);
    await until("the old wildcards", async () => (await query(resolver, "b.a.new.test", "A")).addresses.length === 0);
  });

  it("CoreDNS keeps its names if the files cannot be read or are gone", async () => {
    const other = join(bed.folder, "broken");
    mkdirSync(other);
    await new MapFiles({ directory: other, revision: "r1", seconds: () => 1 }).write(dnsMapOf("first", MAPPED));
    const one = await startResolver(bed, "broken", { directory: other, upstream: `${LOCAL}:${upstream.port}` });
    const ours = async () => [
      (await query(one, "shop.test", "A")).addresses,
      (await query(one, "b.a.deep.test", "A")).addresses,
    ];
    assert.deepEqual(await ours(), [[RELAY], [RELAY]]);
    writeFileSync(join(other, "wildcards.zone"), ". 5 IN SOA a. b. 99 1 1 1 1\n*.x. 5 IN A not-an-address\n");
    rmSync(join(other, "hosts"));
    await until("CoreDNS has looked", async () => (await one.process.logTail()).includes("not-an-address"));
    assert.deepEqual(await ours(), [[RELAY], [RELAY]]);
  });

  it("the upstream answers the root and names of one label", async () => {
    for (const name of [".", "test", "localhost"]) {
      const [ours, theirs] = [await query(resolver, name, "A"), await query(upstream, name, "A")];
      assert.deepEqual([ours.rcode, ours.records], [theirs.rcode, theirs.records], name);
    }
  });

  it("our names are answered while the upstream is away", async () => {
    const lonely = await bed.upstream("lonely", { "elsewhere.test.": zone("elsewhere.test.") });
    const one = await startResolver(bed, "alone", { directory, upstream: `${LOCAL}:${lonely.port}` });
    assert.deepEqual((await query(one, "elsewhere.test", "A")).addresses, [PUBLIC]);
    await lonely.process.stop("SIGKILL");
    assert.deepEqual((await query(one, "shop.test", "A")).addresses, [RELAY]);
    assert.deepEqual((await query(one, "b.a.deep.test", "A")).addresses, [RELAY]);
    const { rcode } = await query(one, "elsewhere.test", "A");
    assert.notEqual(rcode, 0, "a failure, and not the answer that there is no such name");
    assert.notEqual(rcode, NXDOMAIN);
  });
});
