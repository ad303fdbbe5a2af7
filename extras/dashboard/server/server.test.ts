import assert from "node:assert/strict";
import { request } from "node:http";
import { after, before, describe, test } from "node:test";
import supertest from "supertest";
import * as ownFiles from "#cli/own-files.ts";
import { fullStatus, NAME } from "#test/fakes/full-status.ts";
import { dashboardFiles } from "./dashboard-files.ts";
import type { FeedMessage } from "./messages.ts";
import { type RunningDashboard, startDashboard } from "./server.ts";

const HOSTILE = "</script><script>alert(1)</script>\n\ndata: {}\u2028\u202e";
const COUNTS = { ok: 0, unknown: 0, warning: 0, broken: 0 };
const REPORT = { headline: "h", status: "ok", counts: COUNTS, findings: [] } as const;

let dashboard: RunningDashboard;
let examined: PromiseWithResolvers<typeof REPORT>;
let examinations = 0;
before(async () => {
  examined = Promise.withResolvers();
  const doctor = () => {
    examinations++;
    return examined.promise;
  };
  const status = async () => fullStatus({ names: [{ ...NAME, target: HOSTILE }] });
  const source = { place: "https://192.0.2.1:6443", status, doctor };
  dashboard = await startDashboard({ source, files: await dashboardFiles(ownFiles), port: 0 });
});
after(() => dashboard.stop());

const base = () => new URL(dashboard.address);
const get = (path: string) => supertest(base().origin).get(path);
const own = (path = "") => `${base().pathname}${path}`;

describe("the address", () => {
  test("is on loopback, and its secret is too long to guess", () => {
    assert.equal(base().hostname, "127.0.0.1");
    assert.match(base().pathname, /^\/[\w-]{32}\/$/);
  });

  test("is different at each start", async () => {
    const other = await startDashboard({ source: { place: "", status: async () => fullStatus() }, files: {}, port: 0 });
    await other.stop();
    assert.notEqual(new URL(other.address).pathname, base().pathname);
  });

  for (const [what, path] of [
    ["no token", () => "/"],
    ["no token, a file", () => "/app.js"],
    ["the token without its end", () => own().slice(0, -2)],
    ["the token and no slash", () => own().slice(0, -1)],
    ["a token of the same length", () => own().replace(/^\/./, (start) => (start === "/A" ? "/B" : "/A"))],
    ["the token in another case", () => own().toUpperCase()],
    ["a path that climbs", () => own("../app.js")],
    ["an encoded slash", () => own().replace(/\/$/, "%2f")],
    ["a name of Object", () => own("constructor")],
    ["something that is not there", () => own("data/status")],
  ] as const) {
    test(`with ${what} is not found`, async () => {
      const response = await get(path());
      assert.deepEqual([response.status, response.text], [404, "not found\n"]);
    });
  }

  test("is the only one: the server does not listen on other addresses of the machine", async () => {
    const { address } = dashboard.server.address() as { address: string };
    assert.equal(address, "127.0.0.1");
  });
});

describe("the page", () => {
  for (const [path, type, text] of [
    ["", "text/html; charset=utf-8", '<script type="module" src="app.js"></script>'],
    ["app.js", "text/javascript; charset=utf-8", "EventSource"],
    ["app.css", "text/css; charset=utf-8", "color-scheme"],
    ["codes.json", "application/json", '"no-target"'],
  ] as const) {
    test(`${path || "itself"} is served, and loads nothing from elsewhere`, async () => {
      const response = await get(own(path)).buffer(true).expect(200).expect("content-type", type);
      const body = response.text ?? String(response.body);
      assert.ok(body.includes(text));
      assert.doesNotMatch(
        body.replaceAll(/http:\/\/www\.w3\.org\/[\w/]+/g, ""),
        /(?:src|href)=.https?:|import\(.https?:|@import|url\(http/,
      );
    });
  }

  test("has no inline script and no inline style", async () => {
    const { text } = await get(own());
    assert.doesNotMatch(text, /<script(?! type="module" src="app\.js"><\/script>)|<style|\son\w+=|style=/);
  });
});

describe("every answer", () => {
  for (const [what, path, status] of [
    ["of the page", "", 200],
    ["of a refusal", "nothing", 404],
  ] as const) {
    test(`${what} forbids foreign scripts and markup, and does not let other pages read or frame it`, async () => {
      const { headers } = await get(own(path)).expect(status);
      const policy = new Map(
        headers["content-security-policy"]?.split("; ").map((rule) => rule.split(" ", 2) as [string, string]),
      );
      assert.equal(policy.get("default-src"), "'none'");
      assert.equal(policy.get("script-src"), "'self'");
      assert.equal(policy.get("frame-ancestors"), "'none'");
      assert.equal(policy.get("require-trusted-types-for"), "'script'");
      assert.doesNotMatch(headers["content-security-policy"] ?? "", /unsafe|\*|https?:/);
      assert.equal(headers["x-content-type-options"], "nosniff");
      assert.equal(headers["referrer-policy"], "no-referrer");
      assert.equal(headers["cross-origin-resource-policy"], "same-origin");
      assert.equal(headers["cache-control"], "no-store");
      assert.deepEqual(
        Object.keys(headers).filter((name) => name.startsWith("access-control")),
        [],
      );
    });
  }
});

describe("another page", () => {
  for (const host of [
    "evil.example:PORT",
    "127.0.0.1",
    "127.0.0.1.evil.example:PORT",
    "127.0.0.1:1",
    "[::1]:PORT",
    "",
  ]) {
    test(`whose name resolves to this server is refused: Host ${host || "empty"}`, async () => {
      await get(own()).set("host", host.replace("PORT", base().port)).expect(403);
    });
  }

  test("at the name localhost is accepted: it is this server", async () => {
    await get(own()).set("host", `localhost:${base().port}`).expect(200);
  });

  for (const [what, headers] of [
    ["another origin", { origin: "https://evil.example" }],
    ["the origin null", { origin: "null" }],
    ["another port of this machine", { origin: "http://127.0.0.1:1" }],
    ["a script elsewhere", { "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script" }],
    ["a frame elsewhere", { "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe" }],
    [
      "another server of this machine",
      { "sec-fetch-site": "same-site", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty" },
    ],
  ] as const) {
    test(`that knows the address gets nothing: ${what}`, async () => {
      await get(own()).set(headers).expect(403);
      await get(own("events")).set(headers).expect(403);
      await supertest(base().origin).post(own("doctor")).set(headers).expect(403);
      assert.equal(examinations, 0);
    });
  }

  test("may link to this one, as the file that opens the browser does", async () => {
    const headers = { "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" };
    await get(own()).set(headers).expect(200);
  });
});

describe("nothing is changed", () => {
  for (const method of ["put", "post", "delete", "patch", "options"] as const) {
    test(`${method} of the page is not found`, async () => {
      await supertest(base().origin)[method](own()).expect(404);
    });
  }

  test("GET does not start the doctor", async () => {
    await get(own("doctor")).expect(404);
    assert.equal(examinations, 0);
  });
});

test("events carry the status as JSON, and no text of a tenant can end an event", async () => {
  const events = await new Promise<FeedMessage[]>((resolve, reject) => {
    const call = request(new URL("events", dashboard.address), (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk: string) => {
        text += chunk;
        if (!text.includes('"summary"') || !text.endsWith("\n\n")) return;
        call.destroy();
        resolve(
          text
            .trim()
            .split("\n\n")
            .map((event) => JSON.parse(event.replace(/^data: /, ""))),
        );
      });
    });
    call.on("error", reject).end();
  });
  assert.deepEqual(
    events.map(({ type }) => type),
    ["begin", "names", "summary"],
  );
  const [, names] = events;
  assert.equal(names?.type === "names" && names.set?.[0]?.[1].target, HOSTILE);
});

test("two concurrent requests share one run of the doctor; a later one runs it again; a failure says why", async () => {
  const ask = () => supertest(base().origin).post(own("doctor"));
  const arrivals = Promise.withResolvers<void>();
  let arrived = 0;
  dashboard.server.on("request", () => ++arrived === 2 && arrivals.resolve());
  const asked = [ask(), ask()].map(async (each) => await each);
  await arrivals.promise;
  examined.resolve(REPORT);
  for (const { status, body } of await Promise.all(asked)) assert.deepEqual([status, body], [200, REPORT]);
  assert.equal(examinations, 1);
  examined = Promise.withResolvers();
  examined.promise.catch(() => {});
  examined.reject(new Error("no route"));
  const failed = await ask();
  assert.deepEqual([failed.status, failed.text], [502, "no route\n"]);
});
