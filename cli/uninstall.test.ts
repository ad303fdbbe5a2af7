import assert from "node:assert/strict";
import { afterEach, describe, type TestContext, test } from "node:test";
import { atTerminal, captured, useFiles } from "#test/fakes/cli.ts";
import { addDeployment, addHolder, installed, NAMESPACE, ours, WEBHOOK_PATH } from "#test/fakes/installed.ts";
import { type FakeApi, fakeApi, noConnections } from "#test/fakes/kube-api.ts";
import { type MemoryServer, refusal } from "#test/fakes/memory-server.ts";
import { skipWaits } from "#test/fakes/skipped-waits.ts";
import { type UninstallFlags, uninstall } from "./uninstall.ts";

const QUESTION = "uninstall now? [y/N] ";
const DELETED = `DELETE ${WEBHOOK_PATH}`;

const files = useFiles();
let api: FakeApi | undefined;
afterEach(async () => {
  await api?.close();
  api = undefined;
});

interface Run extends Partial<UninstallFlags> {
  readonly onWait?: (elapsed: number) => void;
}

async function run(t: TestContext, server: MemoryServer, { onWait, ...flags }: Run = {}) {
  api = await fakeApi(server.respond);
  const kubeconfig = await files.kubeconfig(api.url);
  const time = skipWaits(t, onWait);
  const { context, written } = captured();
  const done = uninstall({ namespace: NAMESPACE, kubeconfig, timeout: 60, ...flags }, context);
  return { done, written, time };
}

describe("--check", () => {
  test("prints the plan and fails while pods hold addresses; does not ask or change anything", async (t) => {
    const server = installed();
    addHolder(server, "shop", "bare");
    const shows = atTerminal(t, "y\n");
    const { done, written } = await run(t, server, { check: true, yes: true, force: true });
    await assert.rejects(done, { code: "still-held" });
    assert.match(written.stdout, /^Addresses that the uninstall frees: .*\n1\. The webhook configuration/);
    assert.deepEqual([written.stderr, shows(QUESTION), server.writes], ["", false, []]);
  });
});

describe("uninstall", () => {
  test("with --yes uninstalls without a prompt", async (t) => {
    const server = installed();
    const shows = atTerminal(t, "n\n");
    const { done, written } = await run(t, server, { yes: true });
    await done;
    assert.match(written.stdout, /^the webhook configuration .* is gone.*\nno pod holds an address of Switchback\n/);
    assert.match(written.stdout, /\ndeleted services\/switchback-nginx\n$/);
    assert.deepEqual([shows(QUESTION), written.stderr, server.writes[0]], [false, "", DELETED]);
  });

  test("fails if a controller runs after --timeout, and deletes nothing that it would create again", async (t) => {
    const server = installed();
    const labels = { "app.kubernetes.io/name": "switchback", "app.kubernetes.io/component": "controller" };
    server.add(ours("pods"), "controller-0", { metadata: { labels } });
    const { done, written } = await run(t, server, { yes: true, timeout: 1 });
    await assert.rejects(done, { code: "still-held", message: /: controller-0\. The 1 s of --timeout are over$/ });
    assert.doesNotMatch(written.stdout, /^deleted /m);
  });

  test("after `helm uninstall --no-hooks` deletes what is left, without a configuration", async (t) => {
    const server = installed();
    server.objects.delete(ours("configmaps/switchback-config"));
    server.objects.delete(WEBHOOK_PATH);
    const { done, written } = await run(t, server, { yes: true });
    await done;
    assert.match(written.stdout, /\ndeleted services\/switchback-nginx\n$/);
  });

  test("without --yes prints the plan and the addresses still held, then asks; a yes uninstalls", async (t) => {
    const server = installed();
    addDeployment(server, "shop", "web");
    const shows = atTerminal(t, "y\n");
    const { done, written } = await run(t, server, {
      onWait: (elapsed) => elapsed > 2_000 && server.objects.delete("/api/v1/namespaces/shop/pods/web-old"),
    });
    await done;
    const lines = written.stdout.trimEnd().split("\n");
    const asked = lines.indexOf(
      "1 pod holds addresses of Switchback, and would connect to the next Service that gets one",
    );
    assert.equal(lines[asked - 1], "Left: what Helm or your manifests installed, and the namespace ours.");
    assert.match(lines[asked + 1] ?? "", /^the webhook configuration/);
    assert.equal(lines.at(-1), "deleted services/switchback-nginx");
    assert.ok(shows(QUESTION));
    assert.deepEqual(server.writes[0], DELETED);
  });

  for (const input of ["n\n", ""]) {
    test(`answered with ${JSON.stringify(input)}, changes nothing and fails`, async (t) => {
      const server = installed();
      atTerminal(t, input);
      const { done, written } = await run(t, server, { force: true });
      await assert.rejects(done, { code: "declined", message: /^declined: nothing was changed\. --yes/ });
      assert.match(written.stdout, /\nLeft: what Helm .* the namespace ours\.\n$/);
      assert.deepEqual(server.writes, []);
    });
  }

  test("does not ask if it cannot make the plan", async (t) => {
    const server = installed();
    server.onCall = ({ path }) => (path === "/api/v1/pods" ? refusal(403, "Forbidden") : undefined);
    const shows = atTerminal(t, "y\n");
    const { done } = await run(t, server);
    await assert.rejects(done, { code: "kube-status", status: 403 });
    assert.deepEqual([shows(QUESTION), server.writes], [false, []]);
  });

  test("closes its connections on success and on failure", async (t) => {
    const server = installed();
    await (await run(t, server, { check: true })).done;
    assert.ok(api);
    const closed = api;
    await noConnections(closed);
    await closed.close();
    t.mock.restoreAll();
    const { done } = await run(t, server, { check: true, namespace: "elsewhere" });
    await assert.rejects(done);
    await noConnections(api);
  });
});
