import assert from "node:assert/strict";
import { test } from "node:test";
import { componentFlags, connectFlags, helpOf } from "#test/fakes/cli.ts";
import { MemoryServer } from "#test/fakes/memory-server.ts";
import { publishers } from "./extra.ts";

test("the command's help lists its flags", async () => {
  assert.deepEqual(await helpOf("publish"), {
    usage: "publish [options] <publisher>",
    flags: [...componentFlags, "--remove", "--yes", ...connectFlags, "-h, --help"],
  });
});

test("the status reads the document of each publisher, by its name", async () => {
  const server = new MemoryServer();
  const { document } = (await publishers.readStatus?.(server.client, "ours", { now: 0 })) ?? {};
  assert.deepEqual(document, {});
  assert.deepEqual(server.calls.map(({ path }) => path).sort(), [
    "/api/v1/namespaces/ours/configmaps/switchback-publisher-coredns",
    "/api/v1/namespaces/ours/configmaps/switchback-publisher-coredns-import",
    "/api/v1/namespaces/ours/configmaps/switchback-publisher-external-dns",
  ]);
});
