import assert from "node:assert/strict";
import { test } from "node:test";
import { addConfig, NAMESPACE } from "#test/fakes/installed.ts";
import { MemoryServer } from "#test/fakes/memory-server.ts";
import { readConfigText } from "./installed-config.ts";

test("the configuration is the content of config.yaml, and empty without it", async () => {
  const api = new MemoryServer();
  addConfig(api, { "config.yaml": "strict: true" });
  assert.equal(await readConfigText(api.client, NAMESPACE), "strict: true");
  addConfig(api);
  assert.equal(await readConfigText(api.client, NAMESPACE), "");
});

test("another object in place of the configuration is refused", async () => {
  const api = new MemoryServer();
  api.onCall = () => ({ status: 200, body: { metadata: { name: "another" } } });
  await assert.rejects(readConfigText(api.client, NAMESPACE), { code: "data-corrupt" });
});
