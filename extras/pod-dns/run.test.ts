import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { Reason } from "#hostmap/types.ts";
import type { MapReader } from "#lib/documents/map-reader.ts";
import { parse } from "#lib/errors/validation.ts";
import { type Logger, silentLogger } from "#lib/telemetry/log.ts";
import { hashValue } from "#lib/telemetry/metrics.ts";
import { until } from "#test/fakes/kube-api.ts";
import { POD_DNS_SECTION } from "./config.ts";
import type { DnsMap } from "./dns-map.ts";
import { dnsMapOf } from "./fakes/dns-map.ts";
import { runDns } from "./run.ts";

const LOCAL = "127.0.0.1";
const RELAY = "198.51.100.9";

async function start(t: TestContext, log: Logger = silentLogger, before: readonly string[] = []) {
  const directory = mkdtempSync(join(tmpdir(), "switchback-dns-"));
  for (const file of before) writeFileSync(join(directory, file), "unfinished");
  let offer: (offer: DnsMap | Reason) => void = () => {};
  let inactiveMs = 0;
  const maps: MapReader<DnsMap> = {
    start(found) {
      offer = found;
      return { stop: async () => {}, inactiveMs: () => inactiveMs };
    },
  };
  const podDns = parse(POD_DNS_SECTION.schema, { directory, healthPort: 0 });
  const settings = { ...podDns, address: LOCAL, revision: "none" };
  const dns = await runDns(settings, { maps, clusterDomain: "k8s.test", log, now: Date.now });
  t.after(async () => {
    await dns.stop();
    rmSync(directory, { recursive: true });
  });
  const get = async (path: string) => {
    const response = await fetch(`http://${LOCAL}:${dns.healthPort}${path}`);
    return { status: response.status, text: await response.text() };
  };
  const read = (file: string) => readFileSync(join(directory, file), "utf8");
  const setInactive = (ms: number) => {
    inactiveMs = ms;
  };
  return { dns, directory, get, read, setInactive, offer: (one: DnsMap | Reason) => offer(one) };
}

const mapOf = (revision: string, ...names: string[]) =>
  dnsMapOf(revision, new Map(names.map((name) => [name, [RELAY]])));

test("not ready before a map is written, so that CoreDNS does not start without one", async (t) => {
  const { dns, get, read, offer } = await start(t);
  assert.match(read("Corefile"), /^k8s\.test:1053 \{/);
  assert.deepEqual(await get("/readyz"), { status: 503, text: "[-] map: not written\n" });
  assert.equal((await get("/healthz")).status, 200);
  assert.throws(() => read("hosts"), { code: "ENOENT" });
  offer(mapOf("r1", "a.test", "**.b.test"));
  await until(() => dns.state.written !== undefined, "the map is written");
  assert.match(read("hosts"), /\n198\.51\.100\.9 a\.test\n$/);
  assert.match(read("wildcards.zone"), /\n\*\.b\.test\. 5 IN A 198\.51\.100\.9\n$/);
  assert.deepEqual(await get("/readyz"), { status: 200, text: "[+] map: revision r1, 1 names\n" });
});

test("a map that cannot be used is reported once, and the last one stays", async (t) => {
  const warnings: object[] = [];
  const { dns, get, read, offer } = await start(t, { ...silentLogger, warn: (fields) => warnings.push(fields) });
  offer(mapOf("r1", "a.test"));
  await until(() => dns.state.written !== undefined, "the map is written");
  for (let times = 0; times < 3; times += 1) offer({ code: "shard-missing", text: "the shard x is not there" });
  const { status, text } = await get("/readyz");
  assert.equal(status, 200);
  assert.match(text, /revision r1, 1 names \(shard-missing: the shard x is not there\)/);
  assert.match((await get("/metrics")).text, /switchback_dns_map_problem 1\n/);
  assert.match(read("hosts"), /a\.test/);
  assert.deepEqual(warnings, [{ code: "shard-missing", text: "the shard x is not there", revision: "r1" }]);
  offer(mapOf("r2", "b.test"));
  await until(() => dns.state.written?.revision === "r2", "the next map is written");
  assert.doesNotMatch((await get("/readyz")).text, /shard-missing/);
  // The page rests for a while after it was rendered.
  const shown = `switchback_dns_map_hash ${hashValue("r2")}\n`;
  await until(async () => (await get("/metrics")).text.includes(shown), "the page to show the map");
});

test("the write is retried if files cannot be written", async (t) => {
  const { dns, directory, get, read, offer } = await start(t);
  mkdirSync(join(directory, "hosts.new"));
  offer(mapOf("r1", "a.test"));
  await until(() => dns.state.problem !== undefined, "the write fails");
  assert.equal(dns.state.problem?.code, "dns-not-written");
  assert.match((await get("/metrics")).text, /switchback_dns_writes_total\{result="failed"\} \d/);
  rmSync(join(directory, "hosts.new"), { recursive: true });
  await until(() => dns.state.written !== undefined, "the map is written");
  assert.match(read("hosts"), /a\.test/);
  assert.equal(dns.state.problem, undefined);
});

test("unfinished files of a previous process are deleted at the start", async (t) => {
  const { directory } = await start(t, silentLogger, ["hosts.new", "wildcards.zone.new", "hosts"]);
  assert.deepEqual(readdirSync(directory).sort(), ["Corefile", "hosts"]);
});

test("the serial grows only if the wildcards change, and starts at the current time", async (t) => {
  const { dns, read, offer } = await start(t);
  const serial = () => Number(/SOA \S+ \S+ (\d+) /.exec(read("wildcards.zone"))?.[1]);
  const write = async (map: DnsMap) => {
    offer(map);
    await until(() => dns.state.written?.revision === map.revision, map.revision);
    return serial();
  };
  const first = await write(mapOf("r1", "**.a.test"));
  assert.ok(first > 1_700_000_000);
  assert.equal(await write(mapOf("r2", "**.a.test", "b.test")), first);
  assert.ok((await write(mapOf("r3", "**.c.test"))) > first);
});

test("a wildcard too far below another one is reported once and gets no records", async (t) => {
  const warnings: object[] = [];
  const { dns, read, offer } = await start(t, { ...silentLogger, warn: (fields) => warnings.push(fields) });
  const deep = `${"a.".repeat(20)}wild.test`;
  const entries: ReadonlyArray<[string, string[]]> = [
    ["**.wild.test", [RELAY]],
    [`**.${deep}`, ["198.51.100.10"]],
  ];
  for (const [at, name] of ["one.test", "two.test"].entries()) {
    offer(dnsMapOf(`r${at}`, new Map([...entries, [name, [RELAY]]])));
    await until(() => dns.state.written?.revision === `r${at}`, name);
  }
  assert.equal(read("wildcards.zone").match(/ IN A /g)?.length, 1);
  assert.match(
    JSON.stringify(warnings),
    /^\[\{"code":"dns-no-room","text":"1 names are left out: \\"\*\.a\.a[^"]+\\" is too far below[^}]+\}\]$/,
  );
});

test("liveness follows the watch of the map", async (t) => {
  const { get, setInactive } = await start(t);
  setInactive(180_001);
  assert.equal((await get("/healthz")).status, 503);
});
