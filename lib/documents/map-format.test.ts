import assert from "node:assert/strict";
import { syncBuiltinESMExports } from "node:module";
import { describe, type TestContext, test } from "node:test";
import zlib, { gunzipSync, gzipSync } from "node:zlib";
import { shortHash } from "#hostmap/hash.ts";
import { renderHosts } from "#hostmap/hosts-text.ts";
import type { HostLine, PublishedMap } from "#hostmap/types.ts";
import { fc } from "#test/property.ts";
import { isPublished, type MapObject, mapAnnotations, parseMap, type RenderedMap, renderMap } from "./map-format.ts";
import { isMap } from "./published-map.ts";

const IP = "198.51.100.9";

function linesOf(holder: string, count: number, nameOf = (at: number) => `${holder}-${at}.example.com`): HostLine[] {
  return Array.from({ length: count }, (_, at) => ({ name: nameOf(at), addresses: [IP], holder }));
}

function objectOf({ revision, data, binaryData }: Pick<RenderedMap, "revision" | "data" | "binaryData">): MapObject {
  const annotations = mapAnnotations(revision, {}, "2026-01-01T00:00:00.000Z");
  const values = { ...(data && { data }), ...(binaryData && { binaryData }) };
  return { metadata: { name: "switchback-map", annotations }, ...values };
}

function namesOf({ hosts }: Pick<PublishedMap, "hosts">): string[] {
  return hosts.map(({ name }) => name);
}

/** The ConfigMap of a map with this text. */
function mapObject(text: string): MapObject {
  return objectOf({ revision: shortHash(text), data: { hosts: text } });
}

/** Returns the sizes of the texts that have been zipped since. */
function zippedSizes(t: TestContext): () => number[] {
  const gzip = t.mock.method(zlib, "gzip");
  syncBuiltinESMExports();
  t.after(() => {
    gzip.mock.restore();
    syncBuiltinESMExports();
  });
  return () => gzip.mock.calls.map(({ arguments: [text] }) => String(text).length);
}

async function codeOf(object: MapObject | undefined): Promise<string | undefined> {
  const map = await parseMap(object);
  return isMap(map) ? undefined : map.code;
}

describe("a rendered map", () => {
  for (const count of [0, 1, 5_000, 50_000]) {
    test(`of ${count} names is read as it was written, names in their order`, async () => {
      const lines = linesOf("shop", count).reverse();
      const rendered = await renderMap(lines);
      const map = await parseMap(objectOf(rendered));
      assert.ok(isMap(map));
      assert.deepEqual(namesOf(map), namesOf({ hosts: lines }));
      assert.deepEqual([...map.lines.values()].at(-1), lines.at(-1));
      assert.deepEqual([map.revision, rendered.leftOut], [rendered.revision, 0]);
      assert.equal(rendered.data !== undefined, count <= 5_000, "people can read a small map");
    });
  }

  test("keeps the order of its names, their wildcards and both address families", async () => {
    const lines: HostLine[] = [
      { name: "z.example.com", addresses: [IP, "2001:db8::9"], holder: "shop" },
      { name: "**.example.com", addresses: [IP], holder: "edge" },
      { name: "a.example.com", addresses: [IP] },
    ];
    const map = await parseMap(objectOf(await renderMap(lines)));
    assert.ok(isMap(map));
    assert.deepEqual(namesOf(map), ["z.example.com", "a.example.com"]);
    assert.deepEqual([...map.lines.keys()], ["z.example.com", "**.example.com", "a.example.com"]);
    assert.deepEqual(map.lines.get("z.example.com")?.addresses, [IP, "2001:db8::9"]);
  });

  test("of 20,000 names is zipped only where a line has changed, and is equal to one without memory", async (t) => {
    const lines = linesOf("shop", 20_000);
    const { blocks } = await renderMap(lines);
    const zipped = zippedSizes(t);
    const changed = [
      ...lines.with(7, { ...linesOf("edge", 1)[0], name: "x.example.com" } as HostLine),
      ...linesOf("new", 1),
    ];
    const rendered = await renderMap(changed, blocks);
    assert.equal(zipped().length, 2, "the block of the changed line, and one for the new line");
    const again = await renderMap(changed);
    assert.deepEqual([rendered.binaryData, rendered.revision], [again.binaryData, again.revision]);
  });

  test("of 20,000 names shares the lines that have not changed since the last one", async () => {
    const lines = linesOf("shop", 20_000);
    const before = await parseMap(objectOf(await renderMap(lines)));
    assert.ok(isMap(before));
    const changed = lines.with(7, { ...linesOf("edge", 1)[0], name: "shop-7.example.com" } as HostLine);
    const after = await parseMap(objectOf(await renderMap(changed)), before);
    assert.ok(isMap(after));
    const other = namesOf(after).filter((name) => after.lines.get(name) !== before.lines.get(name));
    assert.deepEqual(other, ["shop-7.example.com"]);
  });
});

describe("a map that is full", () => {
  const random = (at: number, length = 253) => {
    const label = () => Array.from({ length: 60 }, () => Math.floor(Math.random() * 36).toString(36)).join("");
    return `${[label(), label(), label(), label()].join(".").slice(0, length - 20)}.n${at}.example.com`;
  };
  const honest = Array.from({ length: 40 }, (_, at) => linesOf(`team-${at}`, 50)).flat();

  test("leaves out the latest names of the namespaces with the most bytes, and nobody else's", async () => {
    const hostile = Array.from({ length: 18 }, (_, at) => linesOf(`tenant-${at}`, 250, random)).flat();
    const lines = [...hostile.slice(0, 500), ...honest, ...hostile.slice(500)];
    const rendered = await renderMap(lines, [], 400_000);
    assert.ok(Buffer.from(rendered.binaryData?.["hosts.gz"] ?? "", "base64").length > 300_000);
    const map = await parseMap(objectOf(rendered));
    assert.ok(isMap(map));
    assert.deepEqual(
      honest.filter(({ name }) => !map.lines.has(name)),
      [],
    );
    const kept = map.hosts.length - honest.length;
    assert.ok(kept > 1_000 && kept < hostile.length, `${kept}`);
    assert.equal(rendered.leftOut, hostile.length - kept);
    for (const [holder, own] of Map.groupBy(hostile, (line) => line.holder)) {
      const earliest: HostLine[] = own.filter(({ name }) => map.lines.has(name));
      assert.deepEqual(earliest, own.slice(0, earliest.length), `${holder} keeps the names that it had first`);
    }
  });

  test("is compressed a few times, and only tenants with similar names far apart lose some", async (t) => {
    const tenants = Array.from({ length: 40 }, () => Array.from({ length: 5 }, () => random(0, 200)));
    const lines: HostLine[] = Array.from({ length: 100 }, (_, at) =>
      tenants.map((names, tenant) => ({
        name: `n${at}.${names[at % 5]}`,
        addresses: [IP],
        holder: `tenant-${tenant}`,
      })),
    ).flat();
    const zipped = zippedSizes(t);
    lines.push(...honest);
    const rendered = await renderMap(lines, [], 200_000);
    const times = zipped().reduce((sum, size) => sum + size, 0) / renderHosts(lines).length;
    assert.ok(times <= 6, `${times} times`);
    const map = await parseMap(objectOf(rendered));
    assert.ok(isMap(map) && map.hosts.length > honest.length + 1_000);
    const lost = honest.filter(({ name }) => !map.lines.has(name));
    assert.deepEqual(lost, [], "their names take more room than they seem to alone");
  });

  test("has no more text than its readers unzip", async () => {
    const lines = linesOf("shop", 8_000, (at) => `n${at}.${"a".repeat(60)}.${"b".repeat(60)}.${"c".repeat(60)}.com`);
    const { leftOut, binaryData } = await renderMap(lines, [], 40_000);
    const text = gunzipSync(Buffer.from(binaryData?.["hosts.gz"] ?? "", "base64"));
    assert.ok(leftOut > 0 && text.length <= (40_000 * 32 * 1024 * 1024) / 1_000_000, `${text.length}`);
  });

  test("property: always fits, and a namespace with less than its share loses nothing", async () => {
    const sizes = fc.array(fc.integer({ min: 0, max: 200 }), { minLength: 1, maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(sizes, async (counts) => {
        const lines = counts.flatMap((count, at) => linesOf(`ns-${at}`, count, (n) => random(n)));
        const { data, leftOut } = await renderMap(lines, [], 9_000);
        assert.ok((data?.hosts?.length ?? 0) <= 9_000);
        const map = await parseMap(mapObject(data?.hosts ?? ""));
        assert.ok(isMap(map) && map.hosts.length === lines.length - leftOut);
        const least = Math.min(...counts.filter((count) => count > 0), Number.POSITIVE_INFINITY);
        const smallest = counts.indexOf(least);
        if (least * 280 > 9_000 / counts.length / 2) return;
        for (const { name, holder } of lines) if (holder === `ns-${smallest}`) assert.ok(map.lines.has(name), name);
      }),
      { numRuns: 30 },
    );
  });
});

describe("a reader refuses a map", () => {
  const good = mapObject(`${IP} a.example.com # shop\n`);
  const gz = (data: Buffer | string) => ({ "hosts.gz": Buffer.from(data).toString("base64") });
  const { metadata, data } = good;
  const text = data?.hosts ?? "";

  test("the good one is read, plain and gzipped", async () => {
    assert.equal(await codeOf(good), undefined);
    assert.equal(await codeOf({ metadata, binaryData: gz(gzipSync(text)) }), undefined);
  });

  for (const [what, object, code] of [
    ["that is missing", undefined, "map-missing"],
    ["of a later version", { ...good, metadata: annotated("switchback.dev/map-version", "2") }, "map-version"],
    ["without a version", { metadata: {}, ...(data && { data }) }, "map-malformed"],
    ["with both keys", { ...good, binaryData: gz(gzipSync(text)) }, "map-malformed"],
    ["without a key", { metadata }, "map-malformed"],
    ["that is cut", { metadata, binaryData: gz(gzipSync(text).subarray(0, 20)) }, "map-malformed"],
    ["that is gzipped twice", { metadata, binaryData: gz(gzipSync(gzipSync(text))) }, "map-malformed"],
    ["that is no gzip", { metadata, binaryData: gz("x") }, "map-malformed"],
    ["that grows too large", { metadata, binaryData: gz(gzipSync("x".repeat(40_000_000))) }, "map-malformed"],
    ["that somebody made 1 MiB large", { metadata, data: { hosts: text.repeat(30_000) } }, "map-malformed"],
    ["that somebody edited", { metadata, data: { hosts: `${text}${IP} b.example.com\n` } }, "map-malformed"],
  ] as const satisfies ReadonlyArray<readonly [string, MapObject | undefined, string]>) {
    test(what, async () => assert.equal(await codeOf(object), code));
  }

  function annotated(key: string, value: string): MapObject["metadata"] {
    return { ...metadata, annotations: { ...metadata.annotations, [key]: value } };
  }
});

describe("what is published", () => {
  test("is compared by text and annotations, except the time and what others added", async () => {
    const map = await renderMap(linesOf("shop", 2));
    const hold = { since: 1, until: 2, names: 3, of: 4 };
    const held = { "switchback.dev/hold": JSON.stringify(hold) };
    const lost = { "switchback.dev/map-lost": "2026-01-01T00:00:00.000Z" };
    const lostAt = Date.parse(lost["switchback.dev/map-lost"]);
    const object = objectOf(map);
    const { annotations } = object.metadata;
    const with_ = (more: object): MapObject => ({
      ...object,
      metadata: { ...object.metadata, annotations: { ...annotations, ...more } },
    });
    assert.equal(isPublished(object, map, {}), true);
    assert.equal(isPublished(with_({ "switchback.dev/published": "x", other: "y" }), map, {}), true);
    assert.equal(isPublished(with_({ ...held, ...lost }), map, { hold, lostAt }), true);
    for (const [stored, notes] of [
      [undefined, {}],
      [object, { hold }],
      [object, { lostAt }],
      [with_(held), {}],
      [with_(lost), {}],
      [with_({ "switchback.dev/map-revision": "x" }), {}],
      [with_({ "switchback.dev/map-version": "2" }), {}],
      [{ ...object, data: { hosts: "" } }, {}],
      [{ ...object, binaryData: { "hosts.gz": "" } }, {}],
    ] as const)
      assert.equal(isPublished(stored, map, notes), false);
  });
});
