import assert from "node:assert/strict";
import { createServer } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { after, describe, test } from "node:test";
import request from "supertest";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { LineLog } from "#test/fakes/clock.ts";
import { type AppOptions, createApp } from "./app.ts";
import { createInjectionCache } from "./injection-cache.ts";
import type { PodDns } from "./injection-decision.ts";
import { createWebhookMetrics } from "./metrics.ts";

const names = Array.from({ length: 600 }, (_, index) => `host-${index}.example.com`);
const map = createInjectionCache(publishedMapOf("r1", new Map(names.map((name) => [name, ["198.51.100.9"]]))), 500);
const LIMIT = 3 * 1024 * 1024;

function review(changes: object = {}, pod: object = {}) {
  return {
    apiVersion: "admission.k8s.io/v1",
    kind: "AdmissionReview",
    request: {
      uid: "uid-1",
      kind: { group: "", version: "v1", kind: "Pod" },
      operation: "CREATE",
      subResource: "",
      namespace: "shop",
      object: { metadata: { generateName: "web-" }, spec: {}, ...pod },
      ...changes,
    },
  };
}

function start(changes: Partial<AppOptions> = {}) {
  const log = new LineLog();
  const metrics = createWebhookMetrics();
  const app = createApp({ map: () => map, metrics, log, ...changes });
  const sample = async (name: string) =>
    Number(
      new RegExp(`^switchback_webhook_${name.replace(/[{}]/g, "\\$&")} (\\S+)$`, "m").exec(
        await metrics.registry.metrics(),
      )?.[1] ?? 0,
    );
  return { app, log, metrics, sample };
}

const PATHS = ["/mutate/namespace", "/mutate/pod"];
const ENABLED = { metadata: { labels: { "switchback.dev/inject": "enabled" } } };

test("a pod is patched, its uid is echoed, and the answer contains nothing else", async () => {
  const one = createInjectionCache(publishedMapOf("r", new Map([["a.example.com", ["198.51.100.9"]]])), 500);
  const { app } = start({ map: () => one });
  const response = await request(app).post("/mutate/namespace").send(review()).expect(200);
  assert.equal(response.type, "application/json");
  const { patch, ...rest } = response.body.response;
  assert.deepEqual(rest, { uid: "uid-1", allowed: true, patchType: "JSONPatch" });
  const [first] = JSON.parse(Buffer.from(patch, "base64").toString());
  assert.deepEqual(first, {
    op: "add",
    path: "/spec/hostAliases",
    value: [{ ip: "198.51.100.9", hostnames: ["a.example.com"] }],
  });
  assert.deepEqual([response.headers["x-powered-by"], response.headers.etag], [undefined, undefined]);
});

test("an answer with text that is not ASCII arrives whole", async () => {
  const hosts = "é, \u{1f600}";
  const pod = { metadata: { annotations: { "switchback.dev/hosts": hosts } }, spec: {} };
  const uid = "\u2028é\u{1f600}";
  const { body } = await request(start().app).post("/mutate/namespace").send(review({ uid }, pod)).expect(200);
  assert.deepEqual([body.response.uid, body.response.allowed], [uid, true]);
});

const podDns: PodDns = (_request, { hostAliases }, isWanted) => {
  const injection = { userAliases: hostAliases, managed: { aliases: [], annotations: {} } };
  return { changes: [], ...(isWanted && { given: { code: "given", injection } }) };
};

test("the path states how the pods of a namespace get their names", async () => {
  for (const path of PATHS) {
    for (const [fallback, code] of [
      ["hosts", "injected"],
      ["dns", "given"],
    ] as const) {
      for (const [end, expected] of [
        ["", code],
        ["/dns", "given"],
        ["/hosts", "injected"],
      ] as const) {
        const { app, metrics } = start({ via: { fallback, podDns } });
        await request(app)
          .post(path + end)
          .send(review({}, ENABLED))
          .expect(200);
        assert.match(await metrics.registry.metrics(), new RegExp(`admissions_total\\{code="${expected}"`));
      }
    }
  }
});

test("a review at /reachable is allowed, and not counted as a pod", async () => {
  const { app, metrics } = start();
  const { body } = await request(app).post("/reachable").send(review()).expect(200);
  assert.deepEqual(body.response, { uid: "uid-1", allowed: true });
  assert.doesNotMatch(await metrics.registry.metrics(), /switchback_webhook_admissions_total\{/);
});

test("a body that is no review is allowed, with its uid if it has one, and counted as no review", async () => {
  for (const path of [...PATHS, "/reachable"]) {
    const { app, sample } = start();
    const other = await request(app)
      .post(path)
      .send({ ...review(), kind: "ConversionReview" })
      .expect(200);
    assert.deepEqual([other.body.response.uid, other.body.response.allowed], ["uid-1", true]);
    for (const text of ["", "{", "[".repeat(30_000)]) {
      const { body } = await request(app).post(path).type("json").send(text).expect(200);
      assert.deepEqual([body.response.uid, body.response.allowed], ["", true]);
    }
    const counted = await sample(`admissions_total{code="not-a-review",opt_in="${path.split("/").at(-1)}"}`);
    assert.equal(counted, path === "/reachable" ? 0 : 4);
  }
});

describe("requests that are refused", () => {
  const whole = JSON.stringify(review());
  const padded = (bytes: number) => {
    const padding = (length: number) => JSON.stringify(review({ padding: "x".repeat(length) }));
    return padding(bytes - padding(0).length);
  };
  const cases: ReadonlyArray<readonly [string, number, (post: request.Test) => request.Test]> = [
    ["nothing", 415, (post) => post],
    ["text", 415, (post) => post.type("text/plain").send(whole)],
    ["a patch of JSON", 415, (post) => post.type("application/json-patch+json").send(whole)],
    ["JSON of another type", 415, (post) => post.type("text/json").send(whole)],
    ["JSON with a charset, in capitals", 200, (post) => post.type("Application/JSON; charset=utf-8").send(whole)],
    ["a form", 415, (post) => post.type("form").send({ a: 1 })],
    ["exactly the limit", 200, (post) => post.type("json").send(padded(LIMIT))],
    ["a byte more than the limit", 413, (post) => post.type("json").send(padded(LIMIT + 1))],
    ["compressed", 415, (post) => post.set("content-encoding", "gzip").type("json").send(whole)],
  ];
  for (const [title, status, send] of cases) {
    test(`${title} is answered with ${status} and no details, and the next review with 200`, async () => {
      for (const path of [...PATHS, "/reachable"]) {
        const { app, sample } = start();
        const answer = await send(request(app).post(path)).expect(status);
        if (status !== 200) {
          assert.match(answer.text, /^\S.{3,200}\n$/);
          assert.equal(await sample(`refused_total{status="${status}"}`), 1);
        }
        await request(app).post(path).send(review()).expect(200);
      }
    });
  }

  test("another path or method gets 404 and no details", async () => {
    const { app } = start();
    await request(app).post("/mutate/other").send(review()).expect(404);
    await request(app).post("/mutate/namespace/dns").send(review()).expect(404);
    await request(app).get("/mutate/pod").expect(404);
    await request(app).get("/%").expect(404);
    await request(app).post("/mutate/pod/%E0%A4%A").send(review()).expect(404);
  });

  test("a fault of the webhook gets 500 and no details, and is in the log", async () => {
    const { app, log } = start({
      metrics: {
        ...createWebhookMetrics(),
        admitted: () => {
          throw new Error("inner-detail");
        },
      },
    });
    const { text } = await request(app).post("/mutate/namespace").send(review()).expect(500);
    assert.equal(text, "internal error\n");
    const fields = { code: "internal-error", error: "inner-detail", heldBack: 0 };
    assert.deepEqual(log.lines.at(-1), { level: "error", fields, message: "request failed" });
  });
});

describe("on raw connections", () => {
  const HEAD = "POST /mutate/pod HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n";
  const ends: (() => void)[] = [];
  after(() => ends.map((end) => end()));

  async function listening(changes: Partial<AppOptions> = {}) {
    const { app } = start(changes);
    const server = createServer(app).listen(0, "127.0.0.1");
    ends.push(() => server.close().closeAllConnections());
    await new Promise((resolve) => server.once("listening", resolve));
    const { port } = server.address() as AddressInfo;
    const open = (text: string): Socket => {
      const socket = connect(port, "127.0.0.1");
      socket.on("error", () => {}).write(text);
      return socket;
    };
    return { server, port, open };
  }

  /** Resolves with what the server has sent when it ends the connection, or `end` lines after the first bytes. */
  const answerTo = (socket: Socket): Promise<string> =>
    new Promise((resolve) => {
      let answer = "";
      socket.on("data", (chunk) => {
        answer += chunk;
        socket.end();
      });
      socket.once("close", () => resolve(answer));
    });

  test("a truncated body, a disconnect and bytes that are not HTTP affect no other request", async () => {
    const { port, open } = await listening();
    await answerTo(open(`${HEAD}content-length: 5000\r\n\r\n{"apiVersion":`).end());
    assert.match(await answerTo(open(`${HEAD}content-length: -1\r\n\r\n`)), /^HTTP\/1\.1 400/);
    assert.match(await answerTo(open("\u0016\u0003\u0001 not http\r\n\r\n")), /^HTTP\/1\.1 400/);
    await request(`http://127.0.0.1:${port}`).post("/mutate/namespace").send(review()).expect(200);
  });

  test("a body over the limit, or without a content-length, is refused before it arrives", async () => {
    const { open } = await listening();
    assert.match(await answerTo(open(`${HEAD}content-length: ${LIMIT + 1}\r\n\r\n`)), /^HTTP\/1\.1 413/);
    assert.match(await answerTo(open(`${HEAD}transfer-encoding: chunked\r\n\r\n`)), /^HTTP\/1\.1 411/);
  });

  test("a review in several pieces is read as a whole", async () => {
    const { open } = await listening();
    const body = JSON.stringify(review());
    const socket = open(`${HEAD}content-length: ${body.length}\r\n\r\n`).setNoDelay(true);
    for (const piece of [body.slice(0, 1), body.slice(1, 40), body.slice(40)]) {
      socket.write(piece);
      await new Promise((resolve) => setImmediate(resolve));
    }
    assert.match(await answerTo(socket), /^HTTP\/1\.1 200 .*"uid":"uid-1"/s);
  });

  test("unfinished bodies share a budget: the one that began first is closed; ended ones give it back", async () => {
    // The budget is 8 MiB: two of these bodies.
    const { server, port, open } = await listening();
    const begin = async (): Promise<Socket> => {
      const arrived = new Promise<void>((resolve) => {
        server.once("request", (incoming) => {
          let size = 0;
          incoming.on("data", (chunk: Buffer) => {
            size += chunk.length;
            if (size >= 3_100_000) resolve();
          });
        });
      });
      const socket = open(`${HEAD}content-length: ${LIMIT}\r\n\r\n${"{".repeat(3_100_000)}`);
      await arrived;
      return socket;
    };
    for (let round = 0; round < 2; round += 1) {
      const oldest = await begin();
      const refused = answerTo(oldest);
      const others = [await begin()];
      assert.equal(oldest.destroyed, false);
      others.push(await begin());
      assert.equal(await refused, "");
      await request(`http://127.0.0.1:${port}`).post("/mutate/namespace").send(review()).expect(200);
      const closed = Promise.all(
        others.map((socket) => new Promise((resolve) => socket.destroy().once("close", resolve))),
      );
      await closed;
      while ((await connectionsOf(server)) > 0) await new Promise((resolve) => setImmediate(resolve));
    }
  });
});

const connectionsOf = (server: ReturnType<typeof createServer>): Promise<number> =>
  new Promise((resolve, reject) => {
    server.getConnections((error, count) => (error ? reject(error) : resolve(count)));
  });

test("warnings are answered and counted; logs have their codes, and nothing of the pod's content", async () => {
  const { app, log, sample } = start();
  const marker = "sentinel-7f3a";
  const pod = {
    metadata: { name: marker, labels: { a: marker }, annotations: { "switchback.dev/hosts": `${marker}_, *` } },
    spec: { containers: [{ env: [{ name: marker, value: marker }] }] },
  };
  const { body } = await request(app).post("/mutate/namespace").send(review({}, pod)).expect(200);
  assert.match(body.response.warnings.join(), new RegExp(`${marker}_`));
  assert.equal(await sample('warnings_total{code="item-invalid"}'), 1);
  await request(app).post("/mutate/namespace").type("json").send(`{"${marker}": ${marker}`).expect(200);
  await request(app).post(`/mutate/pod/%${marker}`).type("json").send("{}").expect(404);
  assert.ok(!JSON.stringify(log.lines).includes(marker), JSON.stringify(log.lines));
  assert.deepEqual(
    log.lines.filter(({ level }) => level === "warn").map(({ fields }) => fields),
    [
      { code: "injected", namespace: "shop", warnings: ["item-invalid", "many-names"], heldBack: 0 },
      { code: "not-a-review", namespace: undefined, warnings: ["not-a-review"], heldBack: 0 },
      { code: "request-refused", status: 404, reason: "POST /mutate/namespace or /mutate/pod", heldBack: 0 },
    ],
  );
});

test("a duration is counted for each pod, from the last byte of its review", async (t) => {
  const { app, sample } = start();
  let clockMs = 0;
  t.mock.method(performance, "now", () => clockMs);
  const { parse } = JSON;
  t.mock.method(JSON, "parse", (text: string) => {
    clockMs += 40;
    return parse(text);
  });
  await request(app).post("/mutate/pod").send(review()).expect(200);
  await request(app).post("/mutate/other").send(review()).expect(404);
  assert.deepEqual(
    [await sample("admission_duration_seconds_count"), await sample("admission_duration_seconds_sum")],
    [1, 0.04],
  );
});
