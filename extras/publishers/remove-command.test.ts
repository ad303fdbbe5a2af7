import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { runHere, useFiles } from "#test/fakes/cli.ts";
import { fakeApi } from "#test/fakes/kube-api.ts";
import { MemoryServer } from "#test/fakes/memory-server.ts";
import { markedBlock } from "./marked-block.ts";

const KUBE_SYSTEM = "/api/v1/namespaces/kube-system/configmaps";
const OURS = "/api/v1/namespaces/switchback-system/configmaps";

const files = useFiles();

async function remove(server: MemoryServer, ...args: string[]) {
  const api = await fakeApi(server.respond);
  try {
    const result = await runHere(["publish", ...args], { KUBECONFIG: await files.kubeconfig(api.url) });
    const writes = api.calls.filter(({ method }) => method !== "GET").map(({ method, path }) => `${method} ${path}`);
    return { ...result, writes, server: api.url.origin };
  } finally {
    await api.close();
  }
}

describe("publish --remove", () => {
  for (const [publisher, place] of [
    ["coredns", "key Corefile of the ConfigMap kube-system/coredns"],
    ["coredns-import", "key switchback.server of the ConfigMap kube-system/coredns-custom"],
    ["external-dns", "DNSEndpoint objects of the namespace switchback-system"],
  ] as const) {
    it(`of ${publisher} says that there is nothing to remove, and where it looked`, async () => {
      const server = new MemoryServer();
      server.add(KUBE_SYSTEM, "coredns", { data: { Corefile: ".:53 {\n}\n" } });
      server.add(KUBE_SYSTEM, "coredns-custom", { data: { "switchback.server": "# mine\n" } });
      const done = await remove(server, publisher, "--remove", "--context", "x");
      const nothing = `nothing to remove: ${publisher} has written nothing in the ${place}`;
      const text = `${nothing}, in the cluster ${done.server}/\n`;
      assert.deepEqual([done.code, done.stdout, done.stderr, done.writes], [0, text, "", []]);
    });
  }

  it("names the cluster and asks, if the names or the publisher's document exist", async () => {
    const [names, document] = [new MemoryServer(), new MemoryServer()];
    names.add(KUBE_SYSTEM, "coredns", { data: { Corefile: `${markedBlock("a {\n}\n", "coredns", "")}.:53 {\n}\n` } });
    document.add(OURS, "switchback-publisher-coredns", { data: {} });
    for (const server of [names, document]) {
      const { code, stdout, stderr, writes, server: origin } = await remove(server, "coredns", "--remove");
      assert.deepEqual([code, writes], [1, []]);
      const where = `the key Corefile of the ConfigMap kube-system/coredns, in the cluster ${origin}/`;
      assert.equal(stdout, `coredns: takes its names out of ${where}\n`);
      assert.match(stderr, /^switchback: there is no terminal to ask on: nothing was changed\. --yes /);
    }
  });

  it("--yes removes without a question", async () => {
    const server = new MemoryServer();
    server.add(OURS, "switchback-publisher-external-dns", { data: {} });
    const { code, writes } = await remove(server, "external-dns", "--remove", "--yes");
    assert.deepEqual([code, writes.at(-1)], [0, `DELETE ${OURS}/switchback-publisher-external-dns`]);
  });

  it("without --remove, its options choose the cluster of the running publisher", async () => {
    const args = ["publish", "coredns", "--kubeconfig", "/nonexistent/kubeconfig"];
    const { code, stderr } = await runHere(args, { HOME: "/nonexistent" });
    assert.equal(code, 2);
    assert.match(stderr, /\/nonexistent\/kubeconfig/);
  });
});
