import assert from "node:assert/strict";
import { test } from "node:test";
import { DOMAINS_KEY } from "#hostmap/metadata-keys.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { settled } from "#test/fakes/stopped-time.ts";
import { Namespaces } from "./namespaces.ts";

test("each change of a namespace is reported, with its annotation and labels", async (t) => {
  const path = "/api/v1/namespaces";
  const api = new MemoryKube();
  const changed: string[] = [];
  const source = new Namespaces({ client: api.client, log: silentLogger });
  t.after(() => source.stop());
  source.follow((name, before, after) => changed.push(`${name} ${before?.domains} ${after?.domains}`));
  const set = (domains: string, labels: Record<string, string> = {}) =>
    api.set(path, { metadata: { name: "shop", labels, annotations: { [DOMAINS_KEY]: domains } } });
  set("example.com", { team: "a" });
  source.start(() => changed.push("synced"));
  await settled();
  assert.deepEqual(changed.splice(0), ["shop undefined example.com", "synced"]);
  assert.deepEqual([...api.whole], [], "only metadata is read");
  assert.deepEqual([source.of("shop")?.labels.team, source.of("web")], ["a", undefined]);
  set("example.org");
  set("");
  api.unset(path, "shop");
  assert.deepEqual(changed, ["shop example.com example.org", "shop example.org ", "shop  undefined"]);
  assert.equal(source.of("shop"), undefined);
});
