import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, test } from "node:test";
import { call, lookUp } from "./call.ts";

describe("a pod's request", () => {
  test("goes to the given address with the name as its host; only a 200 is a success", async (t) => {
    const seen: unknown[] = [];
    const server = createServer((request, response) => {
      seen.push([request.method, request.url, request.headers.host]);
      response.statusCode = request.headers.host === "a.example.com" ? 200 : 404;
      response.write(" hé");
      response.end("llo\n");
    });
    t.after(() => server.close());
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const at = { address: "127.0.0.1", port: (server.address() as AddressInfo).port };
    assert.deepEqual(await call("a.example.com", at), { ok: true, text: "200 héllo" });
    assert.deepEqual(await call("b.example.com", at), { ok: false, text: "404 héllo" });
    assert.deepEqual(seen, [
      ["GET", "/", "a.example.com"],
      ["GET", "/", "b.example.com"],
    ]);
    server.closeAllConnections();
    server.close();
    await once(server, "close");
    const refused = `connect ECONNREFUSED 127.0.0.1:${at.port}`;
    assert.deepEqual(await call("a.example.com", at), { ok: false, text: refused });
  });
});

test("the address of a name is that of its first entry in /etc/hosts", () => {
  const aliases = [
    { ip: "192.0.2.1", hostnames: ["a", "b"] },
    { ip: "192.0.2.2", hostnames: ["b", "c"] },
  ];
  assert.deepEqual(
    ["a", "b", "c", "d"].map((name) => lookUp(aliases, name)),
    ["192.0.2.1", "192.0.2.1", "192.0.2.2", undefined],
  );
});
