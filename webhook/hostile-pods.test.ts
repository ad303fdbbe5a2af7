import assert from "node:assert/strict";
import { test } from "node:test";
import { shortHash } from "#hostmap/hash.ts";
import { HOSTS_KEY, OWNED_KEY } from "#hostmap/metadata-keys.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { LogThrottle } from "#lib/telemetry/log-throttle.ts";
import { LineLog } from "#test/fakes/clock.ts";
import { answerReview } from "./admission-response.ts";
import { decodeReview } from "./admission-review.ts";
import { createInjectionCache } from "./injection-cache.ts";
import { createWebhookMetrics } from "./metrics.ts";

/** Maximum CPU time of the thread for one admission. */
const LIMIT_MS = 50;
/** The largest body that is read, less what surrounds the pod. */
const BYTES = 3 * 1024 * 1024 - 2_000;
const IP = "198.51.100.9";

const NAMES = Array.from({ length: 1_000 }, (_, index) => `host-${index}.shop.example.com`);
const map = createInjectionCache(publishedMapOf("m", new Map(NAMES.map((name) => [name, [IP]]))), 500);
const log = new LineLog();
const options = {
  map: () => map,
  metrics: createWebhookMetrics(),
  log,
  throttle: new LogThrottle(60_000, () => 0),
};

const aliases = (count: number, hostname: (index: number) => string) =>
  Array.from({ length: count }, (_, index) => ({ ip: IP, hostnames: [hostname(index)] }));
const ownedBy = (managed: ReturnType<typeof aliases>, digest?: string): string =>
  `${IP} x${managed.length} ` +
  `(${digest ?? shortHash(JSON.stringify(managed.map(({ ip, hostnames }) => [ip, hostnames])))})`;
const keys = (count: number, bytes: number) =>
  Object.fromEntries(
    Array.from({ length: count }, (_, index) => [index.toString(36).padStart(bytes / count, "x"), "y"]),
  );
const long = (index: number): string => `${"x".repeat(600)}${index}`;
const LONG = aliases(Math.floor(BYTES / 660), long);
const FORGED = "0123456789ab";

/** Pods as a dry run can send them: metadata, and the rest of the object. */
const PODS: Readonly<
  Record<string, { readonly annotations?: object; readonly spec?: object; readonly labels?: object }>
> = {
  "a forged count of equal aliases": {
    annotations: {
      [OWNED_KEY]: ownedBy(
        aliases(2_000, () => ""),
        FORGED,
      ),
    },
    spec: { hostAliases: aliases(4_000, () => "") },
  },
  "a forged count of long aliases": {
    annotations: { [OWNED_KEY]: ownedBy(LONG.slice(1_000), FORGED) },
    spec: { hostAliases: LONG },
  },
  "managed aliases to be replaced among long ones": {
    annotations: { [OWNED_KEY]: ownedBy(LONG.slice(-100)) },
    spec: { hostAliases: LONG },
  },
  "managed aliases listed one by one": {
    annotations: { [OWNED_KEY]: `${`${IP} x1, `.repeat(7_000)}${IP} x1 (${FORGED})` },
    spec: { hostAliases: aliases(3_000, () => "") },
  },
  "as many annotations as are read": { annotations: keys(19_000, BYTES - 19_000 * 8) },
  "as many labels as are read": { labels: keys(19_000, BYTES - 19_000 * 8) },
  "unknown fields": { spec: { unknown: keys(19_000, 19_000 * 6) } },
  "mapped names in capitals": {
    spec: {
      hostAliases: [{ ip: IP, hostnames: Array.from({ length: 19_000 }, (_, at) => NAMES[at % 1_000]?.toUpperCase()) }],
    },
  },
  "many names to choose": {
    annotations: { [HOSTS_KEY]: Array.from({ length: 9_000 }, (_, index) => `*.${index.toString(36)}.com`).join(" ") },
  },
  "one long string": { spec: { unknown: "é".repeat(BYTES / 2) } },
};

function review({ annotations, labels, spec }: (typeof PODS)[string]): Buffer {
  const request = {
    uid: "u",
    kind: { group: "", kind: "Pod" },
    operation: "CREATE",
    namespace: "shop",
    object: { metadata: { annotations, labels }, spec: spec ?? {} },
  };
  return Buffer.from(JSON.stringify({ apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview", request }));
}

/** CPU time of this thread for one admission, milliseconds. */
function admit(body: Buffer): number {
  const before = process.threadCpuUsage();
  const answer = answerReview(decodeReview(body), { optIn: "namespace" }, options, performance.now());
  const { user, system } = process.threadCpuUsage(before);
  assert.ok(!log.lines.splice(0).some(({ level }) => level === "error"), "no internal error");
  assert.match(answer, /"allowed":true/);
  return (user + system) / 1_000;
}

function assertQuick(body: Buffer): void {
  // The first ones run before V8 has optimized anything.
  const best = Math.min(...Array.from({ length: 5 }, () => admit(body)));
  assert.ok(best < LIMIT_MS, `${best} ms`);
}

for (const [title, pod] of Object.entries(PODS)) {
  test(`a pod with ${title} is admitted within ${LIMIT_MS} ms`, () => {
    const body = review(pod);
    assert.ok(body.length <= BYTES + 2_000, `${body.length} bytes`);
    assertQuick(body);
  });
}

const WRONG = [null, undefined, true, 0, -1.5, "", "x", [], [null], [[]], {}, { x: null }, { length: 1 }];
const WHOLE = JSON.parse(
  review({
    annotations: { [HOSTS_KEY]: "*", [OWNED_KEY]: "none" },
    labels: { "switchback.dev/inject": "enabled", "switchback.dev/via": "hosts" },
    spec: { hostAliases: aliases(2, String), os: { name: "linux" }, nodeSelector: { a: "b" } },
  }).toString(),
);

/** Every path of a value. */
function pathsOf(value: unknown, path: readonly string[] = []): (readonly string[])[] {
  if (typeof value !== "object" || value === null) return [path];
  return [path, ...Object.entries(value).flatMap(([key, part]) => pathsOf(part, [...path, key]))];
}

function replaced(value: unknown, [key, ...rest]: readonly string[], wrong: unknown): unknown {
  if (key === undefined) return wrong;
  const part = replaced((value as Record<string, unknown>)[key], rest, wrong);
  return Array.isArray(value) ? value.with(Number(key), part) : { ...(value as object), [key]: part };
}

test("a review with any field of a wrong type is allowed", () => {
  const paths = pathsOf(WHOLE);
  assert.ok(paths.length > 30);
  for (const path of paths) {
    for (const wrong of WRONG) {
      admit(Buffer.from(JSON.stringify(replaced(WHOLE, path, wrong)) ?? ""));
    }
  }
});

const HEAD = JSON.stringify(WHOLE).replace('"nodeSelector":{"a":"b"}', '"nodeSelector":');
for (const [what, value] of [
  ["lists 10,000 deep", "[".repeat(10_000) + "]".repeat(10_000)],
  ["maps 10,000 deep", `${'{"a":'.repeat(10_000)}1${"}".repeat(10_000)}`],
  ["3 MiB of empty lists", `[${"[],".repeat(1_047_000)}[]]`],
  ["lists 1,500,000 deep", "[".repeat(1_500_000) + "]".repeat(1_500_000)],
] as const) {
  test(`a review with ${what} is allowed within ${LIMIT_MS} ms`, () => {
    assertQuick(Buffer.from(HEAD.replace('"nodeSelector":', `"nodeSelector":${value}`)));
  });
}
