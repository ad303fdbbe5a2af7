import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { captured, runHere, useFiles } from "#test/fakes/cli.ts";
import { demo } from "./demo.ts";

const EXAMPLES = fileURLToPath(new URL("../examples/demo", import.meta.url));
const files = useFiles();

async function linesOf(directory: string): Promise<string[]> {
  const { context, written } = captured();
  await demo({ directory }, context);
  return written.stdout.trimEnd().split("\n");
}

describe("the demo", () => {
  it("maps every name of its examples, and each answers through the relay only, in at most 30 lines", async () => {
    const lines = await linesOf(EXAMPLES);
    assert.ok(lines.length <= 30, `${lines.length}`);
    assert.ok(lines.every((line) => !line.includes("not mapped")));
    const answers = lines.filter((line) => line.includes("  200 "));
    assert.deepEqual(
      answers.map((line) => line.trim().split(/ {2,}/).slice(0, 3)),
      [
        ["cert-manager/cert-manager-7d9f8", "shop.example.com", "socket hang up"],
        ["cert-manager/cert-manager-7d9f8", "api.example.com", "socket hang up"],
        ["cert-manager/cert-manager-7d9f8", "checkout.example.com", "socket hang up"],
        ["shop/smoke-test", "api.example.com", "socket hang up"],
      ],
    );
    assert.match(lines.at(-3) ?? "", /^The ingress controller logs: broken header: "GET \/ HTTP\/1\.1" /);
    assert.match(lines.at(-1) ?? "", /^Next: `npx switchback doctor` /);
  });

  it("shows objects of the user, also a name that is not mapped, and a workload with aliases of its own", async () => {
    const directory = await files.folder("own", {
      "all.yml": `
apiVersion: v1
kind: List
items:
  - { apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: { name: i }, spec: { rules: [{ host: a.example.com }] } }
  - apiVersion: networking.k8s.io/v1
    kind: Ingress
    metadata: { name: greedy }
    spec: { rules: [{ host: acme-v02.api.letsencrypt.org }] }
  - apiVersion: apps/v1
    kind: Deployment
    metadata: { name: w }
    spec: { template: { metadata: { labels: { switchback.dev/inject: enabled } }, spec: { containers: [] } } }
`,
    });
    const text = (await linesOf(directory)).join("\n");
    assert.match(text, /acme-v02\.\S+ +Ingress default\/greedy +not mapped \(name-protected\)/);
    assert.match(text, /default\/w +pod +127\.0\.0\.1 a\.example\.com/);
  });

  for (const [what, texts, says] of [
    ["without pods", { "a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: c }\n" }, /no pod or workload/],
    ["with a document that is no object", { "a.yaml": "---\nhello\n" }, /a\.yaml: document 1: it lacks `apiVersion`/],
    ["with a broken document", { "a.yaml": "a: [\n" }, /a\.yaml: document 1: Flow sequence/],
  ] as const) {
    it(`refuses a directory ${what}, with the place`, async () => {
      const { code, stderr } = await runHere(["demo", await files.folder(what, texts)], {});
      assert.equal(code, 2);
      assert.match(stderr, says);
    });
  }
});
