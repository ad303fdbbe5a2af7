import assert from "node:assert/strict";
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { after, before, describe, test } from "node:test";
import { gzipSync } from "node:zlib";
import request from "supertest";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { type Logger, silentLogger } from "#lib/telemetry/log.ts";
import { fakeDelivery } from "#test/fakes/delivery.ts";
import { type AppOptions, createApp } from "./app.ts";
import { createInjectionCache } from "./injection-cache.ts";
import { createWebhookMetrics } from "./metrics.ts";

const names = Array.from({ length: 600 }, (_, index) => `host-${index}.example.com`);
const map = createInjectionCache(publishedMapOf("r1", new Map(names.map((name) => [name, ["198.51.100.9"]]))), 500);

function review(changes: object = {}, pod: object = {}) {
  return {
    apiVersion: "admission.k8s.io/v1",
    kind: "AdmissionReview",
    request: {
      uid: "uid-1",
      kind: { group: "", version: "v1", kind: "Pod" },
      operation: "CREATE",
      namespace: "shop",
      object: { metadata: { generateName: "web-" }, spec: {}, ...pod },
      ...changes,
    },
  };
}

interface Line {
  readonly level: string;
  readonly fields: object;
}

function start(changes: Partial<AppOptions> = {}) {
  const lines: Line[] = [];
  const at = (level: string) => (fields: object) => lines.push({ level, fields });
  const log: Logger = { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
  const metrics = createWebhookMetrics();
  const app = createApp({ map: () => map, metrics, log, maxBodyBytes: 64 * 1024, ...changes });
  return { app, lines, metrics };
}

const PATHS = ["/mutate/namespace", "/mutate/pod"];

test("a pod is patched, its uid is echoed, and the answer contains nothing else", async () => {
  const { app } = start({
    map: () => createInjectionCache(publishedMapOf("r", new Map([["a.example.com", ["198.51.100.9"]]])), 500),
  });
  const response = await request(app).post("/mutate/namespace").send(review()).expect(200);
  assert.equal(response.type, "application/json");
  const { uid, allowed, patchType, patch, warnings } = response.body.response;
  assert.deepEqual(
    { uid, allowed, patchType, warnings },
    { uid: "uid-1", allowed: true, patchType: "JSONPatch", warnings: undefined },
  );
  const [first] = JSON.parse(Buffer.from(patch, "base64").toString());
  assert.deepEqual(first, {
    op: "add",
    path: "/spec/hostAliases",
    value: [{ ip: "198.51.100.9", hostnames: ["a.example.com"] }],
  });
  assert.equal(response.headers["x-powered-by"], undefined);
  assert.equal(response.headers.etag, undefined);
});

test("a pod over the cap is admitted with a warning", async () => {
  const response = await request(start().app).post("/mutate/namespace").send(review()).expect(200);
  assert.deepEqual(response.body.response.warnings, [
    "switchback.dev/hosts: only the first 500 of 600 mapped names are injected; choose fewer",
  ]);
});

test("a dry run gets the same answer as any other request", async () => {
  const { app } = start();
  const wet = await request(app).post("/mutate/namespace").send(review());
  const dry = await request(app)
    .post("/mutate/namespace")
    .send(review({ dryRun: true }));
  assert.deepEqual(dry.body, wet.body);
});

test("the path carries the opt-in", async () => {
  const { app } = start();
  const byPod = await request(app).post("/mutate/pod").send(review());
  assert.deepEqual(byPod.body.response, { uid: "uid-1", allowed: true });
  const enabled = { metadata: { labels: { "switchback.dev/inject": "enabled" } } };
  const labelled = await request(app).post("/mutate/pod").send(review({}, enabled));
  assert.ok(labelled.body.response.patch);
});

test("a review of another kind is allowed, with a warning", async () => {
  for (const change of [
    { kind: { group: "apps", version: "v1", kind: "Deployment" } },
    { kind: { group: "metrics.example.com", version: "v1", kind: "Pod" } },
    { subResource: "ephemeralcontainers" },
  ]) {
    const { body } = await request(start().app).post("/mutate/namespace").send(review(change)).expect(200);
    assert.equal(body.response.allowed, true);
    assert.equal(body.response.patch, undefined);
    assert.match(body.response.warnings[0], /not about a Pod/);
  }
});

const MALFORMED_PODS: ReadonlyArray<readonly [string, object]> = [
  ["no spec", { spec: undefined }],
  ["aliases that are not a list", { spec: { hostAliases: { ip: "x" } } }],
  ["an alias without an IP", { spec: { hostAliases: [{ hostnames: ["a"] }] } }],
  ["annotations that are not strings", { metadata: { annotations: { "switchback.dev/hosts": 1 } } }],
  ["labels that are a list", { metadata: { labels: [] } }],
];

for (const [title, pod] of MALFORMED_PODS) {
  test(`a pod with ${title} is allowed unchanged, with a warning`, async () => {
    const { body } = await request(start().app).post("/mutate/namespace").send(review({}, pod)).expect(200);
    assert.equal(body.response.allowed, true);
    assert.equal(body.response.patch, undefined);
    assert.match(body.response.warnings[0], /the pod cannot be read/);
    assert.ok(body.response.warnings[0].length <= 120);
  });
}

test("a missing object is allowed unchanged, with a warning", async () => {
  for (const object of [null, undefined, "pod", 1, []]) {
    const { body } = await request(start().app).post("/mutate/namespace").send(review({ object })).expect(200);
    assert.match(body.response.warnings[0], /the pod cannot be read/);
  }
});

test("null lists and maps, which Go clients may send, count as empty", async () => {
  const pod = { metadata: { labels: null, annotations: null }, spec: { hostAliases: null } };
  const { body } = await request(start().app).post("/mutate/namespace").send(review({}, pod)).expect(200);
  assert.ok(body.response.patch);
});

test("without a map the pod is allowed, with a warning", async () => {
  const { app, lines } = start({ map: () => undefined });
  const { body } = await request(app).post("/mutate/namespace").send(review()).expect(200);
  assert.equal(body.response.allowed, true);
  assert.match(body.response.warnings[0], /no hostname map/);
  assert.deepEqual(
    lines.filter(({ level }) => level === "warn").map(({ fields }) => fields),
    [{ code: "no-map", namespace: "shop", warnings: ["no-map"], heldBack: 0 }],
  );
});

test("an internal error allows the pod, with a warning that reveals no details", async () => {
  const { app, lines, metrics } = start({
    decide: () => {
      throw new Error("inner-detail");
    },
  });
  const { body, text } = await request(app).post("/mutate/namespace").send(review()).expect(200);
  assert.equal(body.response.allowed, true);
  assert.equal(body.response.uid, "uid-1");
  assert.ok(!text.includes("inner-detail"));
  assert.match(JSON.stringify(lines), /inner-detail/);
  assert.match(await metrics.registry.metrics(), /admissions_total\{code="internal-error",opt_in="namespace"\} 1/);
});

describe("bodies that are not a review", () => {
  const whole = JSON.stringify(review());
  const cases: ReadonlyArray<readonly [string, number, (post: request.Test) => request.Test]> = [
    ["nothing", 415, (post) => post],
    ["an empty JSON body", 400, (post) => post.type("json").send("")],
    ["text", 415, (post) => post.type("text/plain").send(whole)],
    ["a form", 415, (post) => post.type("form").send({ a: 1 })],
    ["malformed JSON", 400, (post) => post.type("json").send("{")],
    ["half a review", 400, (post) => post.type("json").send(whole.slice(0, -20))],
    ["the wrong kind", 400, (post) => post.send({ ...review(), kind: "ConversionReview" })],
    ["the wrong version", 400, (post) => post.send({ ...review(), apiVersion: "admission.k8s.io/v1beta1" })],
    ["a list of reviews", 400, (post) => post.send([review()])],
    ["deep nesting", 400, (post) => post.type("json").send("[".repeat(30_000))],
    ["more than the limit", 413, (post) => post.send(review({}, { padding: "x".repeat(70_000) }))],
    ["compressed", 415, (post) => post.set("content-encoding", "gzip").type("json").send(whole)],
  ];
  for (const path of PATHS) {
    for (const [title, status, send] of cases) {
      test(`${path}: ${title} is refused with ${status} and a sentence, and the next review is answered`, async () => {
        const { app } = start();
        const refused = await send(request(app).post(path)).expect(status);
        assert.match(refused.text, /^\S.{3,200}\n$/);
        assert.ok(!refused.text.includes("node_modules"));
        await request(app).post(path).send(review()).expect(200);
      });
    }
  }

  test("a compressed bomb is not decompressed", async () => {
    const bomb = gzipSync(Buffer.alloc(10_000_000, " "));
    const post = request(start().app).post("/mutate/pod").set("content-encoding", "gzip").type("json");
    post.write(bomb as unknown as string);
    await post.expect(415);
  });

  test("another path or method gets 404, without a stack trace", async () => {
    const { app } = start();
    await request(app).post("/mutate/other").send(review()).expect(404);
    await request(app).get("/mutate/pod").expect(404);
    await request(app).get("/%").expect(404);
    await request(app).post("/mutate/pod/%E0%A4%A").send(review()).expect(404);
  });
});

describe("on a raw connection", () => {
  let server: Server;
  let port: number;
  const metrics = createWebhookMetrics();

  before(async () => {
    const app = createApp({ map: () => map, metrics, log: silentLogger, maxBodyBytes: 64 * 1024 });
    server = createServer(app).listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    port = (server.address() as AddressInfo).port;
  });
  after(() => server.close());

  async function send(text: string, end: boolean): Promise<string> {
    const socket = connect(port, "127.0.0.1");
    socket.write(text);
    if (end) socket.end();
    let answer = "";
    socket.on("data", (chunk) => {
      answer += chunk;
      socket.end();
    });
    await new Promise((resolve) => socket.once("close", resolve));
    return answer;
  }

  const head = "POST /mutate/pod HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n";

  test("a truncated body, a disconnect and bytes that are not HTTP affect no other request", async () => {
    await send(`${head}content-length: 5000\r\n\r\n{"apiVersion":`, true);
    await send(`${head}content-length: -1\r\n\r\n`, false);
    assert.match(await send("\u0016\u0003\u0001 not http\r\n\r\n", false), /^HTTP\/1\.1 400/);
    assert.match(await send(`${head}transfer-encoding: chunked\r\n\r\nzz\r\n`, false), /400/);
    await request(`http://127.0.0.1:${port}`).post("/mutate/namespace").send(review()).expect(200);
  });
});

test("a hundred concurrent reviews each get their own uid", async () => {
  const server = createServer(start().app).listen(0, "127.0.0.1");
  try {
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, index) =>
        request(server)
          .post("/mutate/namespace")
          .send(review({ uid: `uid-${index}` })),
      ),
    );
    answers.forEach(({ body }, index) => {
      assert.equal(body.response.uid, `uid-${index}`);
    });
  } finally {
    server.close();
  }
});

test("logs contain codes and the namespace, and nothing of the pod's content", async () => {
  const { app, lines } = start();
  const marker = "sentinel-7f3a";
  const pod = {
    metadata: { name: marker, labels: { a: marker }, annotations: { "switchback.dev/hosts": `${marker}_, *` } },
    spec: { containers: [{ env: [{ name: marker, value: marker }] }] },
  };
  await request(app).post("/mutate/namespace").send(review({}, pod)).expect(200);
  await request(app).post("/mutate/namespace").type("json").send(`{"${marker}": ${marker}`).expect(400);
  assert.ok(lines.length >= 3);
  assert.ok(!JSON.stringify(lines).includes(marker), JSON.stringify(lines));
  assert.deepEqual(lines[0], {
    level: "warn",
    fields: { code: "injected", namespace: "shop", warnings: ["item-invalid", "over-cap"], heldBack: 0 },
  });
});

test("a warning that every pod gets is logged once a minute, and counted", async () => {
  const { app, lines, metrics } = start();
  for (let times = 0; times < 5; times += 1) await request(app).post("/mutate/namespace").send(review()).expect(200);
  assert.equal(lines.filter(({ level }) => level === "warn").length, 1);
  assert.match(await metrics.registry.metrics(), /switchback_webhook_warnings_total\{code="over-cap"\} 5/);
});

test("metrics count pods by code and opt-in, and refusals by status", async () => {
  const { app, metrics } = start();
  await request(app).post("/mutate/namespace").send(review());
  await request(app).post("/mutate/pod").send(review());
  await request(app).post("/mutate/pod").type("json").send("{");
  const text = await metrics.registry.metrics();
  assert.match(text, /switchback_webhook_admissions_total\{code="injected",opt_in="namespace"\} 1/);
  assert.match(text, /switchback_webhook_admissions_total\{code="not-opted-in",opt_in="pod"\} 1/);
  assert.match(text, /switchback_webhook_refused_total\{status="400"\} 1/);
  assert.match(text, /switchback_webhook_admission_duration_seconds_count 2/);
});

test("the duration of an admission starts at the last byte of its review, before the review is decoded", async (t) => {
  const { app, metrics } = start();
  let clockMs = 0;
  t.mock.method(performance, "now", () => clockMs);
  const { parse } = JSON;
  t.mock.method(JSON, "parse", (text: string) => {
    clockMs += 40;
    return parse(text);
  });
  await request(app).post("/mutate/pod").send(review()).expect(200);
  assert.match(await metrics.registry.metrics(), /switchback_webhook_admission_duration_seconds_sum 0\.04\n/);
});

test("the path states how the pods of a namespace get their names", async () => {
  const codeOf = async (path: string, fallback: "hosts" | "dns") => {
    const { app, metrics } = start({ delivery: { fallback, deliveries: [fakeDelivery()] } });
    const labelled = { metadata: { labels: { "switchback.dev/inject": "enabled" } } };
    await request(app).post(path).send(review({}, labelled)).expect(200);
    return /admissions_total\{code="([^"]+)"/.exec(await metrics.registry.metrics())?.[1];
  };
  for (const path of PATHS) {
    for (const [fallback, code] of [
      ["hosts", "injected"],
      ["dns", "given"],
    ] as const) {
      assert.equal(await codeOf(path, fallback), code);
      assert.equal(await codeOf(`${path}/dns`, fallback), "given");
      assert.equal(await codeOf(`${path}/hosts`, fallback), "injected");
    }
  }
});

test("a review at /reachable is allowed, and not counted as a pod", async () => {
  const { app, metrics } = start();
  const { body } = await request(app).post("/reachable").send(review()).expect(200);
  assert.deepEqual(body.response, { uid: "uid-1", allowed: true });
  assert.doesNotMatch(await metrics.registry.metrics(), /switchback_webhook_admissions_total\{/);
  await request(app).post("/reachable").send({}).expect(400);
});

test("the path of an unknown delivery gets 404", async () => {
  await request(start().app).post("/mutate/namespace/dns").send(review()).expect(404);
});
