import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseAllDocuments } from "yaml";
import { createSelector } from "#hostmap/pod-selection.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { injectManifest, namespaceLabelsIn, readManifests } from "./manifest.ts";
import type { InjectOptions } from "./pod-template.ts";

const IP = "198.51.100.9";
const map = (names: readonly string[], ips: readonly string[] = [IP]) =>
  publishedMapOf("r", new Map(names.map((name) => [name, ips])));
const choosing = (names: readonly string[], longLine = false): InjectOptions => ({
  choose: createSelector(map(names), 500),
  longLine,
  optedIn: false,
  namespaceLabels: new Map(),
  templatePaths: [],
});
const OPTIONS = choosing(["a.example.com", "b.example.com"]);
const OURS = { ip: IP, hostnames: ["a.example.com", "b.example.com"] };

function run(text: string, options = OPTIONS) {
  const read = readManifests({ name: "f", text });
  const namespaceLabels = namespaceLabelsIn(read);
  const parts = read.map((document) => injectManifest(document, { ...options, namespaceLabels }));
  return { output: parts.map(({ output }) => output).join(""), outcomes: parts.flatMap(({ outcomes }) => outcomes) };
}

// biome-ignore lint/suspicious/noExplicitAny: YAML, read as it comes
function documents(text: string): any[] {
  return parseAllDocuments(text).map((document) => document.toJS());
}

/** The failed outcome of a text with one object. */
function refusal(text: string, options = OPTIONS) {
  const { output, outcomes } = run(text, options);
  assert.equal(output, text);
  const [outcome] = outcomes;
  assert.equal(outcome?.result, "failed");
  return outcome;
}

const pod = (rest: string) => `kind: Pod\nmetadata:\n  name: p\n${rest}`;
const SPEC = "spec:\n  containers: []\n";

describe("the pod template", () => {
  const indented = (text: string, by: number) => text.replace(/^(?=.)/gm, " ".repeat(by));
  const under = (...path: string[]) =>
    path.map((key, depth) => `${" ".repeat(2 * depth)}${key}:\n`).join("") + indented(SPEC, 2 * path.length);
  for (const [kind, ...path] of [
    ["Pod"],
    ["Deployment", "spec", "template"],
    ["StatefulSet", "spec", "template"],
    ["DaemonSet", "spec", "template"],
    ["ReplicaSet", "spec", "template"],
    ["ReplicationController", "spec", "template"],
    ["Job", "spec", "template"],
    ["CronJob", "spec", "jobTemplate", "spec", "template"],
  ]) {
    it(`of a ${kind} gets aliases and annotations; the object's own metadata stays unchanged`, () => {
      const metadata = kind === "Pod" ? "" : "metadata: { name: w, namespace: shop }\n";
      const { output, outcomes } = run(`kind: ${kind}\n${metadata}${under(...path)}`);
      const [object] = documents(output);
      const { metadata: written, spec } = path.reduce((value, key) => value[key], object);
      assert.deepEqual(spec.hostAliases, [OURS]);
      const keys = Object.keys(written.annotations).map((key) => key.replace("switchback.dev/", ""));
      assert.deepEqual(keys, ["injected", "revision", "owned"]);
      if (kind !== "Pod") assert.deepEqual(object.metadata, { name: "w", namespace: "shop" });
      const title = kind === "Pod" ? undefined : `${kind} shop/w`;
      assert.deepEqual(outcomes, [
        { place: "f:1", title, result: "injected", reason: { code: "injected", text: "2 names" } },
      ]);
    });
  }

  it("labelled `disabled` is skipped, which is not a failure", () => {
    const text = pod(`  labels: { switchback.dev/inject: disabled }\n${SPEC}`);
    const { output, outcomes } = run(text);
    assert.equal(output, text);
    assert.deepEqual(
      outcomes.map(({ result, reason }) => [result, reason.code]),
      [["skipped", "pod-disabled"]],
    );
  });
});

describe("the rest of the file", () => {
  it("does not change: comments, order, quotes, block texts, and numbers keep their notation", () => {
    const text = `# a licence
kind: Deployment # the kind
metadata:
  name: "quoted"
spec:
  replicas: 010
  template:
    spec:
      volumes:
        - configMap: { defaultMode: 0644 } # octal to kubectl
      terminationGracePeriodSeconds: 1e3
      containers:
        # the only one
        - args: [ '12345678901234567890', 12345678901234567890, yes, ~, 1.10 ]
          command:
            - |
              exec   sleep
---
kind: ConfigMap
data:
  empty:
`;
    const { output } = run(text);
    const added = new Set(output.split("\n")).difference(new Set(text.split("\n")));
    const first = [...added].map((line) => line.trim().split(" ")[0]?.replace("switchback.dev/", ""));
    assert.equal(first.join(" "), "hostAliases: - hostnames: - - metadata: annotations: injected: revision: owned:");
    const gone = new Set(text.split("\n")).difference(new Set(output.split("\n")));
    assert.deepEqual([...gone], []);
  });

  it("may be empty", () => {
    for (const text of ["", "---\n---\n# nothing\n", "---\n---\nkind: Service\n---\n", "kind: List\nitems:\n"]) {
      assert.deepEqual(run(text), { output: text, outcomes: [] });
    }
  });

  it("may contain something other than a Kubernetes object, which is reported", () => {
    for (const text of ["hello\n", "- a\n", "kind: [5]\n", "metadata: { name: web }"]) {
      const { output, outcomes } = run(text);
      assert.equal(output, text);
      assert.deepEqual(
        outcomes.map(({ place, result, reason }) => [place, result, reason.code]),
        [["f:1", "overlooked", "not-an-object"]],
      );
    }
  });
});

describe("existing content", () => {
  for (const [what, text] of [
    ["nothing", pod(SPEC)],
    ["metadata without a value", `kind: Pod\nmetadata:\n${SPEC}`],
    ["empty annotations, as template engines leave them", pod(`  annotations:\n${SPEC}`)],
    ["an empty map of annotations", pod(`  annotations: {}\n${SPEC}`)],
    ["empty hostAliases", pod(`${SPEC}  hostAliases:\n`)],
    ["an empty list of hostAliases", pod(`${SPEC}  hostAliases: []\n`)],
  ] as const) {
    it(`${what}: aliases and annotations are added`, () => {
      const [{ metadata, spec }] = documents(run(text).output);
      assert.deepEqual(spec.hostAliases, [OURS]);
      assert.equal(metadata.annotations["switchback.dev/injected"], `${IP} a.example.com b.example.com`);
    });
  }

  it("the user's aliases stay first, with their comments, and their names are not added again", () => {
    const own = "  hostAliases:\n    # legacy\n    - ip: 192.0.2.1\n      hostnames: [ A.example.com ] # old\n";
    const { output, outcomes } = run(pod(`${SPEC}${own}`));
    assert.ok(output.includes(own));
    const [first, second] = documents(output)[0].spec.hostAliases;
    assert.deepEqual([first.ip, second], ["192.0.2.1", { ip: IP, hostnames: ["b.example.com"] }]);
    assert.equal(outcomes[0]?.reason.text, "1 name");
  });

  it("aliases from an earlier map are replaced, and the result is the same as after one pass", () => {
    const text = pod(`${SPEC}  hostAliases:\n    - ip: 192.0.2.1\n      hostnames: [ own.example.com ]\n`);
    const older = run(text, choosing(["a.example.com", "gone.example.com"])).output;
    assert.deepEqual(documents(run(older).output), documents(run(text).output));
    const none = run(older, choosing([])).output;
    assert.deepEqual(documents(none)[0].spec.hostAliases, [{ ip: "192.0.2.1", hostnames: ["own.example.com"] }]);
    assert.equal(documents(run(run(pod(SPEC)).output, choosing([])).output)[0].spec.hostAliases, undefined);
  });

  it("a choice of names is followed, and its mistakes are reported", () => {
    const text = pod(`  annotations:\n    switchback.dev/hosts: b.example.com, nonsense_\n${SPEC}`);
    const { output, outcomes } = run(text);
    assert.deepEqual(documents(output)[0].spec.hostAliases, [{ ip: IP, hostnames: ["b.example.com"] }]);
    assert.match(outcomes[0]?.reason.text ?? "", /^1 name; .*nonsense_/);
  });
});

describe("a document that cannot be read stays as it is, with a warning that names the line:", () => {
  for (const [what, yaml, line, reason] of [
    ["a key that stands twice", "kind: Pod\nkind: Pod\n", 4, /^Map keys must be unique$/],
    ["a quote without an end", "kind: Pod\nx: 'a\n", 5, /^Missing closing 'quote$/],
    [
      "a template of Helm",
      "{{- if .Values.x }}\nkind: Pod\n{{ end }}\n",
      3,
      /has to be rendered first, by `helm template`$/,
    ],
    [
      "a template of Helm that is YAML",
      "kind: Pod\nspec:\n  x: {{ .Values.x }}\n",
      5,
      /keys must be strings.*`helm template`$/,
    ],
    ["several JSON objects without a marker", '{"kind":"Pod"}\n{"kind":"Pod"}\n', 4, /./],
    ["an alias without an anchor", "kind: Pod\nspec: { x: *b }\n", 3, /Unresolved alias/],
    ["an alias inside of its anchor", "kind: Pod\nspec: { x: &a [*a] }\n", 3, /circular/],
    ["100,000 lists in each other", `x: ${"[".repeat(1e5)}${"]".repeat(1e5)}\n`, 3, /./],
    ["anchors that grow without bound", bomb(), 3, /alias count/],
  ] as const) {
    it(what, () => {
      const text = `# first\n---\n${yaml}---\n${pod(SPEC)}`;
      const { output, outcomes } = run(text);
      assert.ok(output.startsWith(`# first\n---\n${yaml}---\n`), output);
      assert.deepEqual(
        outcomes.map(({ place, result, reason }) => [place, result, reason.code]),
        [
          [`f:${line}`, "overlooked", "yaml-invalid"],
          [`f:${yaml.split("\n").length + 3}`, "injected", "injected"],
        ],
      );
      assert.match(outcomes[0]?.reason.text ?? "", reason);
    });
  }
});

/** Nine levels of nine aliases each: 9^9 values. */
function bomb(): string {
  const level = (index: number) => `a${index + 1}: &a${index + 1} [${Array(9).fill(`*a${index}`).join(", ")}]\n`;
  return `a0: &a0 [x]\n${Array.from({ length: 9 }, (_, index) => level(index)).join("")}`;
}

describe("--opted-in", () => {
  const opted = { ...OPTIONS, optedIn: true };
  const labelled = (label: string) => pod(`  labels: { switchback.dev/inject: ${label} }\n${SPEC}`);
  const namespace = "kind: Namespace\nmetadata: { name: shop, labels: { switchback.dev/inject: enabled } }\n";
  const inShop = (text: string) => text.replace("  name: p\n", "  name: p\n  namespace: shop\n");
  for (const [what, text, result] of [
    ["injects a template with the label", labelled("enabled"), "injected"],
    ["skips one without a label", pod(SPEC), "skipped"],
    ["injects one whose Namespace in the input has the label", `${inShop(pod(SPEC))}---\n${namespace}`, "injected"],
    ["skips one of another namespace", `${pod(SPEC)}---\n${namespace}`, "skipped"],
    ["skips a disabled one in such a Namespace", `${inShop(labelled("disabled"))}---\n${namespace}`, "skipped"],
  ] as const) {
    it(what, () => {
      assert.deepEqual(
        run(text, opted).outcomes.map((outcome) => outcome.result),
        [result],
      );
    });
  }
});

describe("a refusal", () => {
  const list = (item: string) => `kind: List\nitems:\n- ${item.trimEnd().replaceAll("\n", "\n  ")}\n`;
  const deployment = (template: string) => `kind: Deployment\nmetadata: { name: w }\nspec:\n  template: ${template}\n`;
  const aliases = (value: string) => pod(`${SPEC}  hostAliases: ${value}\n`);
  for (const [what, text, code, path] of [
    ["a workload without a template", deployment("x"), "no-pod-template", "spec.template.spec is missing"],
    ["a Pod without a spec", "kind: Pod\n", "no-pod-template", "spec is missing"],
    ["hostAliases that others share", aliases("&a []\nother: *a"), "yaml-shared", "spec.hostAliases is shared"],
    ["hostAliases that are others'", `x: &a []\n${aliases("*a")}`, "yaml-shared", "spec.hostAliases is shared"],
    ["metadata that is an alias", `x: &m { name: p }\nkind: Pod\nmetadata: *m\n${SPEC}`, "yaml-shared", "metadata is"],
    ["a spec that is an alias", `x: &s { containers: [] }\nkind: Pod\nspec: *s\n`, "yaml-shared", "spec is shared"],
    ["an object with an anchor", "&o { kind: Pod, spec: {}, metadata: { name: p } }", "yaml-shared", "the object is"],
    ["an item with an anchor", list(deployment("&t { spec: {} }")), "yaml-shared", "spec.template is shared"],
    [
      "annotations from a merge key",
      `x: &b { annotations: { k: v } }\nkind: Pod\nmetadata: { <<: *b }\n${SPEC}`,
      "yaml-shared",
      "metadata is shared",
    ],
    ["metadata that is no map", `kind: Pod\nmetadata: x\n${SPEC}`, "template-malformed", "metadata must be a map"],
    [
      "annotations that are no map",
      deployment("{ metadata: { annotations: x }, spec: {} }"),
      "template-malformed",
      "spec.template.metadata.annotations must be a map",
    ],
    ["hostAliases that are no list", aliases("x"), "template-malformed", "spec.hostAliases must be a list"],
    ["an alias that is no map", aliases("[ x, null ]"), "template-malformed", "spec.hostAliases[0] must be a map"],
    [
      "hostnames that are no list",
      aliases('[ { ip: "::1", hostnames: a } ]'),
      "template-malformed",
      "spec.hostAliases",
    ],
    ["an alias of the same address", aliases(`[ { ip: ${IP}, hostnames: [ x.y ] } ]`), "address-has-alias", ""],
  ] as const) {
    it(`of ${what}: ${code}`, () => {
      const { reason } = refusal(text);
      assert.equal(reason.code, code);
      assert.ok(reason.text.startsWith(path), reason.text);
    });
  }

  it("does not apply to anchors that inject does not change", () => {
    const text = `kind: Deployment
metadata: { labels: &l { app: web } }
spec:
  selector: { matchLabels: *l }
  template:
    metadata: { labels: *l }
    spec: { containers: [] }
`;
    const { output, outcomes } = run(text);
    assert.equal(outcomes[0]?.result, "injected");
    assert.deepEqual(documents(output)[0].spec.template.metadata.labels, { app: "web" });
  });

  it("of a line that musl would cut names both remedies; with --long-line it is only a warning", () => {
    const many = Array.from({ length: 30 }, (_, index) => `a-rather-long-name-${index}.example.com`);
    const { reason } = refusal(pod(SPEC), choosing(many));
    assert.equal(reason.code, "line-too-long");
    assert.match(reason.text, /over 480: musl .*switchback\.dev\/hosts.*--long-line/);
    const { output, outcomes } = run(pod(SPEC), choosing(many, true));
    assert.deepEqual(documents(output)[0].spec.hostAliases, [{ ip: IP, hostnames: many.toSorted() }]);
    assert.match(outcomes[0]?.reason.text ?? "", /^30 names; .*musl/);
  });

  it("of a line of which Windows would ignore names applies only to Windows pods", () => {
    const ten = Array.from({ length: 10 }, (_, index) => `h${index}.example.com`);
    const windows = SPEC.replace("spec:", "spec:\n  nodeSelector: { kubernetes.io/os: windows }");
    assert.match(refusal(pod(windows), choosing(ten)).reason.text, /10 names, over 9: Windows .*--long-line/);
    assert.match(run(pod(windows), choosing(ten, true)).outcomes[0]?.reason.text ?? "", /^10 names; .*Windows/);
    assert.equal(run(pod(SPEC), choosing(ten)).outcomes[0]?.reason.text, "10 names");
  });
});

it("a manifest that asks for pod DNS gets hostAliases, which is reported; its dnsConfig stays", () => {
  const spec = "spec:\n  dnsPolicy: None\n  dnsConfig: { nameservers: [10.96.0.11] }\n  containers: []\n";
  const { output, outcomes } = run(pod(`  labels: { switchback.dev/via: dns }\n${spec}`));
  const [{ spec: injected }] = documents(output);
  assert.deepEqual([injected.hostAliases, injected.dnsConfig], [[OURS], { nameservers: ["10.96.0.11"] }]);
  assert.match(outcomes[0]?.reason.text ?? "", /^2 names; switchback\.dev\/via: these are hostAliases; /);
});
