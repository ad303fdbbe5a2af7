import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { runHere, useFiles } from "#test/fakes/cli.ts";
import { fullStatus } from "#test/fakes/full-status.ts";
import { type FakeApi, fakeApi, json, type Responder } from "#test/fakes/kube-api.ts";

// Options that people know from kubectl, written as there.

const STATUS = fullStatus({}, { workloads: [] });
const files = useFiles();

async function run(respond: Responder, ...args: string[]) {
  const api: FakeApi = await fakeApi(respond);
  try {
    const result = await runHere(args, { KUBECONFIG: await files.kubeconfig(api.url) });
    return { ...result, calls: api.calls };
  } finally {
    await api.close();
  }
}

describe("as in kubectl", () => {
  it("-o takes its value after a space, after an equals sign, or directly", async () => {
    for (const written of [["-o", "json"], ["-o=json"], ["-ojson"], ["--output", "json"], ["--output=json"]]) {
      const { code, stdout } = await run(json(STATUS), "status", ...written);
      assert.deepEqual([code, JSON.parse(stdout).leader], [0, true], written.join(" "));
    }
    const empty = await runHere(["status", "-o="], {});
    assert.match(empty.stderr, /argument '' is invalid\. Allowed choices are text, /);
    const file = await runHere(["inject", "--hosts", "/dev/null", "--", "-f=x"], {});
    assert.match(file.stderr, /cannot read -f=x: /);
  });

  it("--as impersonates a user in each request", async () => {
    const { code, calls } = await run(json(STATUS), "status", "--as", "jane", "-A", "-o=json");
    assert.equal(code, 0);
    assert.ok(calls.length > 0);
    for (const { headers } of calls) assert.equal(headers["impersonate-user"], "jane");
    for (const user of ["", "a\nb", "é"]) {
      const { stderr } = await runHere(["status", "--as", user], {});
      assert.match(stderr, /is invalid\. Expected a user, such as jane/);
    }
  });

  it("--as without permission reports that, and names no Role", async () => {
    const message = 'users "jane" is forbidden: User "me" cannot impersonate resource "users" in API group ""';
    const forbidden: Responder = ({ response }) => {
      response.writeHead(403, { "content-type": "application/json" });
      response.end(JSON.stringify({ kind: "Status", code: 403, reason: "Forbidden", message }));
    };
    const { stderr } = await run(forbidden, "status", "--as", "jane");
    assert.match(stderr, /\nswitchback: --as needs permission to impersonate users: .*\n$/);
    assert.doesNotMatch(stderr, /rolebinding/);
  });

  it("--request-timeout limits each request", async () => {
    const { code, stderr } = await run(() => {}, "status", "--request-timeout=1s");
    assert.equal(code, 1);
    assert.match(stderr, /: no response within 1 s from /);
  });

  it("-A is the default of status, and cannot be combined with -n", async () => {
    const [all, plain] = [await run(json(STATUS), "status", "-A"), await run(json(STATUS), "status")];
    assert.equal(all.stdout, plain.stdout);
    const { code, stderr } = await runHere(["status", "-A", "-n", "shop"], {});
    assert.equal(code, 2);
    assert.match(stderr, /option '-A, --all-namespaces' cannot be used with option '-n, --namespace <name>'/);
  });
});
