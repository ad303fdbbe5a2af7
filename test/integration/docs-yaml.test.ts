import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { parseAllDocuments } from "yaml";
import { type ControlPlane, startControlPlane } from "../cluster/controlplane.ts";
import { render } from "./rendered.ts";

// The YAML of the pages: a real API server accepts the objects (as a dry run), and the chart accepts the values.

const ROOT = join(import.meta.dirname, "..", "..");
const NAMESPACES = ["shop", "switchback-system"];
/** Kinds and fragments that neither of the two accepts, and why. */
const ELSEWHERE: ReadonlyMap<string, string> = new Map([
  ["Application", "Argo CD's; its definition is in no package registry that the tests use"],
  ["HelmRelease", "Flux's; the same"],
  ["HelmChartConfig", "that of k3s; the same"],
  ["ignoreDifferences", "a part of an Application"],
]);

interface Block {
  readonly page: string;
  readonly text: string;
  readonly value: Readonly<Record<string, unknown>>;
}

const blocks: Block[] = ["README.md", ...globSync("docs/**/*.md", { cwd: ROOT })].flatMap((page) =>
  [...readFileSync(join(ROOT, page), "utf8").matchAll(/^```yaml\n([\s\S]*?)^```$/gm)].flatMap(([, text = ""]) =>
    parseAllDocuments(text).map((document) => {
      assert.deepEqual(document.errors, [], page);
      return { page, text: String(document), value: document.toJS() as Block["value"] };
    }),
  ),
);

let cluster: ControlPlane;
before(async () => {
  cluster = await startControlPlane();
  for (const name of NAMESPACES) assert.equal((await cluster.kubectl("create", "namespace", name)).code, 0);
});
after(() => cluster.stop());

test("the pages have both objects and values", () => {
  assert.ok(blocks.some(({ value }) => "kind" in value) && blocks.some(({ value }) => "config" in value));
});

for (const [index, { page, text, value }] of blocks.entries()) {
  const name = String(value.kind ?? Object.keys(value)[0]);
  if (ELSEWHERE.has(name)) continue;
  test(`${page}, ${index}: ${name}`, async () => {
    if (!("kind" in value)) {
      assert.ok(render({ ...value }).length > 0);
      return;
    }
    const { code, stderr } = await cluster.tool("kubectl", ["apply", "--dry-run=server", "-f", "-"], { input: text });
    assert.equal(code, 0, stderr);
  });
}
