import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { parse } from "yaml";
import { type Rendered, render } from "./rendered.ts";

// docs/gitops.md lists the fields that the controller writes in the chart's objects. A tool that is to leave them alone
// needs every one, in every configuration: Flux takes JSON pointers, and ignores those that an object does not have
// (fluxcd/pkg, ssa/jsondiff).

const PAGE = readFileSync(join(import.meta.dirname, "..", "..", "docs", "gitops.md"), "utf8");

interface Target {
  readonly kind: string;
  readonly name: string;
}

/** What decides which entries the webhook's configuration has (manifests/chart/templates/admission.yaml). */
const CONFIGURATIONS: readonly object[] = [[], ["cert-manager"]].flatMap((namespaces) =>
  [false, true].map((enabled) => ({
    config: { optIn: { namespaces } },
    podDns: { enabled, image: "registry.example.com/coredns:1.14.5" },
  })),
);

/** The objects with a `caBundle` to fill in, each with the JSON pointers to it in any configuration. */
const BUNDLES = bundlesIn(CONFIGURATIONS.flatMap((values) => render(values)));

function bundlesIn(objects: readonly Rendered[]): { target: Target; pointers: string[] }[] {
  const withWebhooks = objects.filter(({ webhooks }) => webhooks !== undefined);
  return [...Map.groupBy(withWebhooks, ({ kind, metadata }) => `${kind}/${metadata.name}`)].map(([key, same]) => {
    const [kind = "", name = ""] = key.split("/");
    const count = Math.max(...same.map(({ webhooks }) => webhooks.length));
    const pointers = Array.from({ length: count }, (_, index) => `/webhooks/${index}/clientConfig/caBundle`);
    return { target: { kind, name }, pointers };
  });
}

/** The YAML on the page whose kind is `kind`. */
function documentOf(kind: string) {
  const all = [...PAGE.matchAll(/^```yaml\n([\s\S]*?)^```$/gm)].map(([, text = ""]) => parse(text));
  return all.find((document) => document.kind === kind);
}

test("Flux leaves every caBundle that the controller writes, in any configuration, and nothing else", () => {
  const { ignore } = documentOf("HelmRelease").spec.driftDetection;
  const ignored = ignore.map(({ target, paths }: { target: Target; paths: string[] }) => ({ target, pointers: paths }));
  assert.equal(BUNDLES.length, 1);
  assert.deepEqual(ignored, BUNDLES);
});

test("Argo CD leaves every caBundle that the controller writes, in any configuration, and nothing else", () => {
  const { ignoreDifferences } = documentOf("Application").spec;
  const expected = BUNDLES.map(({ target, pointers }) => ({
    group: "admissionregistration.k8s.io",
    ...target,
    // jq's `[]` is every entry.
    jqPathExpressions: [...new Set(pointers.map((pointer) => pointer.replace(/\/\d+/, "[]").replaceAll("/", ".")))],
  }));
  assert.deepEqual(ignoreDifferences, expected);
});
