import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryServer } from "#test/fakes/memory-server.ts";
import { skipWaits } from "#test/fakes/skipped-waits.ts";
import { leavePublishers } from "./leave.ts";
import { emptyPublisherState, renderPublisherState } from "./publisher-state.ts";

const NAMESPACE = "switchback-system";
const REST = ".:53 {\n    reload\n}\n";
const COREFILE = `# BEGIN switchback coredns: 1 names\na.test:53 {\n}\n# END switchback coredns\n${REST}`;
const PATH = "/api/v1/namespaces/kube-system/configmaps/coredns";

/** An API server with the document of a publisher, and a Corefile with its part. */
function server(publisher: string): MemoryServer {
  const api = new MemoryServer();
  const state = renderPublisherState({ ...emptyPublisherState(publisher, "there"), revision: "r1", names: 1 });
  api.add(`/api/v1/namespaces/${NAMESPACE}/configmaps`, `switchback-publisher-${publisher}`, {
    metadata: { labels: { "switchback.dev/publisher": publisher }, resourceVersion: "1" },
    data: { "state.json": state },
  });
  api.add("/api/v1/namespaces/kube-system/configmaps", "coredns", {
    metadata: { resourceVersion: "1" },
    data: { Corefile: COREFILE, other: "kept" },
  });
  return api;
}

function leave(api: MemoryServer, settings: unknown, say: (line: string) => void = () => {}): Promise<undefined> {
  const options = { client: api.client, namespace: NAMESPACE, canAsk: false, timeoutMs: 240_000, now: Date.now };
  return leavePublishers({ ...options, sections: { publishers: settings }, say });
}

test("what each publisher has written is taken out, and the uninstall waits if it cannot ask the DNS", async (t) => {
  const time = skipWaits(t);
  const api = server("coredns");
  const said: string[] = [];
  await leave(api, undefined, (line) => said.push(line));
  assert.deepEqual((api.objects.get(PATH) as unknown as { data: object }).data, { Corefile: REST, other: "kept" });
  assert.ok(time.elapsed() >= 150_000, `${time.elapsed()} ms`);
  assert.match(said.at(-1) ?? "", /by waiting/);
});

test("without a publisher, its settings are not checked, and the uninstall does not wait", async (t) => {
  const time = skipWaits(t);
  await leave(new MemoryServer(), { nonsense: true });
  assert.equal(time.elapsed(), 0);
});

test("settings of another version end the uninstall, and nothing is changed", async () => {
  const api = server("coredns");
  await assert.rejects(leave(api, { nonsense: true }), { code: "data-corrupt" });
  assert.equal((api.objects.get(PATH) as unknown as { data: { Corefile: string } }).data.Corefile, COREFILE);
});
