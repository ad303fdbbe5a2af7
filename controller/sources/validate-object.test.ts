import assert from "node:assert/strict";
import { test } from "node:test";
import { validateObject } from "./validate-object.ts";
import { parseYamlFile } from "./yaml-file.ts";

function problems(text: string): string[] {
  return parseYamlFile("a.yaml", text)
    .objects.flatMap(validateObject)
    .map(({ place, code, text: reason }) => `${place}: ${code}: ${reason}`);
}

const LABELS = "switchback.dev/inject, switchback.dev/via";
const ANNOTATIONS =
  "switchback.dev/hosts, switchback.dev/on-change, switchback.dev/ignore, switchback.dev/domains, " +
  "switchback.dev/proxy-protocol, switchback.dev/map, switchback.dev/target";
const GATEWAY_API = "apiVersion: gateway.networking.k8s.io/v1\n";
const HOSTNAME = "labels have 1 to 63 letters, digits and inner hyphens; write IDNA names as xn--";

const FAULTS: ReadonlyArray<readonly [what: string, text: string, expected: readonly string[]]> = [
  [
    "a label with a typing error",
    "kind: Namespace\nmetadata:\n  name: shop\n  labels:\n    switchback.dev/injekt: enabled\n",
    [
      `a.yaml:5: Namespace shop: metadata.labels["switchback.dev/injekt"]: unknown-key: there is no label ` +
        `"switchback.dev/injekt"; accepted are ${LABELS}`,
    ],
  ],
  [
    "a label's key as an annotation",
    "kind: Namespace\nmetadata:\n  name: shop\n  annotations: {switchback.dev/inject: enabled}\n",
    [
      `a.yaml:4: Namespace shop: metadata.annotations["switchback.dev/inject"]: unknown-key: there is no ` +
        `annotation "switchback.dev/inject"; accepted are ${ANNOTATIONS}`,
    ],
  ],
  [
    "a value that is not accepted",
    "kind: Pod\nmetadata:\n  name: p\n  namespace: shop\n  labels: {switchback.dev/inject: 'true'}\n",
    [
      `a.yaml:5: Pod shop/p: metadata.labels["switchback.dev/inject"]: unknown-value: "true" is not accepted; ` +
        "accepted are enabled, disabled",
    ],
  ],
  [
    "a value without quotes, which Kubernetes would refuse",
    "kind: Ingress\nmetadata:\n  name: web\n  annotations:\n    switchback.dev/ignore: true\n",
    ['a.yaml:5: Ingress web: metadata.annotations["switchback.dev/ignore"]: wrong-type: must be a string, not true'],
  ],
  [
    "a selection with a bad item",
    "kind: Pod\nmetadata:\n  name: p\n  annotations: {switchback.dev/hosts: 'a.example.com, b_c'}\n",
    [
      'a.yaml:4: Pod p: metadata.annotations["switchback.dev/hosts"]: item-invalid: switchback.dev/hosts: accepts ' +
        'names, *.example.com or *; ignored: "b_c"',
    ],
  ],
  [
    "a workload's pod template",
    "kind: Deployment\nmetadata: {name: web}\nspec:\n  template:\n    metadata:\n      labels: " +
      "{switchback.dev/inject: on}\n",
    [
      `a.yaml:6: Deployment web: spec.template.metadata.labels["switchback.dev/inject"]: unknown-value: "on" is ` +
        "not accepted; accepted are enabled, disabled",
    ],
  ],
  [
    "a CronJob's pod template",
    "kind: CronJob\nmetadata: {name: web}\nspec: {jobTemplate: {spec: {template: {metadata: {labels: " +
      "{switchback.dev/x: y}}}}}}\n",
    [
      `a.yaml:3: CronJob web: spec.jobTemplate.spec.template.metadata.labels["switchback.dev/x"]: unknown-key: ` +
        `there is no label "switchback.dev/x"; accepted are ${LABELS}`,
    ],
  ],
  [
    "labels that are a list",
    "kind: Pod\nmetadata: {name: p, labels: [a]}\n",
    ["a.yaml:2: Pod p: metadata.labels: wrong-type: must be a map, not a list"],
  ],
  [
    "hostnames in rules and in tls",
    "kind: Ingress\nmetadata: {name: web}\nspec:\n  rules:\n    - host: good.example.com\n    - host: " +
      'bad_name.example.com\n  tls:\n    - hosts:\n        - "127.1"\n',
    [
      `a.yaml:6: Ingress web: spec.rules[1].host: name-not-rfc1123: "bad_name.example.com" has the label ` +
        `"bad_name"; ${HOSTNAME}`,
      'a.yaml:9: Ingress web: spec.tls[0].hosts[0]: name-is-ip: "127.1" is, or would be read as, an IP address',
    ],
  ],
  [
    "rules that are text",
    "kind: Ingress\nmetadata: {name: web}\nspec:\n  rules: a.example.com\n",
    ["a.yaml:4: Ingress web: spec.rules: wrong-type: must be a list, not a string"],
  ],
  [
    "a host that is a number",
    "kind: Ingress\nmetadata: {name: web}\nspec:\n  rules:\n    - host: 5\n",
    ["a.yaml:5: Ingress web: spec.rules[0].host: wrong-type: must be a string, not a number"],
  ],
  [
    "hostnames of a Gateway's listeners and of a route",
    `${GATEWAY_API}kind: Gateway\nmetadata: {name: gw}\nspec:\n  listeners:\n    - {name: web, port: 80, protocol: ` +
      `HTTP, hostname: bad_name.example.com}\n---\n${GATEWAY_API}kind: HTTPRoute\nmetadata: {name: web}\nspec:\n  ` +
      `hostnames: ["*.example.com", "127.1"]\n`,
    [
      `a.yaml:6: Gateway gw: spec.listeners[0].hostname: name-not-rfc1123: "bad_name.example.com" has the label ` +
        `"bad_name"; ${HOSTNAME}`,
      'a.yaml:12: HTTPRoute web: spec.hostnames[1]: name-is-ip: "127.1" is, or would be read as, an IP address',
    ],
  ],
  [
    "a listener without a name, a parent that is text",
    `${GATEWAY_API}kind: Gateway\nmetadata: {name: gw}\nspec: {listeners: [{port: 80, protocol: HTTP}]}\n---\n` +
      `${GATEWAY_API}kind: GRPCRoute\nmetadata: {name: web}\nspec: {parentRefs: [gw]}\n`,
    [
      "a.yaml:4: Gateway gw: spec.listeners[0].name: wrong-type: is missing",
      "a.yaml:9: GRPCRoute web: spec.parentRefs[0]: wrong-type: must be a map, not a string",
    ],
  ],
];
for (const [what, text, expected] of FAULTS) {
  test(what, () => assert.deepEqual(problems(text), expected));
}

const FINE: ReadonlyArray<readonly [what: string, text: string]> = [
  [
    "what people may write",
    "kind: Pod\nmetadata:\n  name: p\n  labels: {switchback.dev/inject: enabled, app: web}\n  annotations: " +
      "{switchback.dev/hosts: '*.example.com', switchback.dev/on-change: none}\n",
  ],
  [
    "an old output of `switchback inject`",
    "kind: Pod\nmetadata:\n  name: p\n  annotations: {switchback.dev/injected: x, switchback.dev/revision: x, " +
      "switchback.dev/owned: x}\n",
  ],
  [
    "an Ingress without hosts, with empty parts",
    "kind: Ingress\nmetadata: {name: web, labels: , annotations: }\nspec: {rules: [{}, {host: ''}, ], tls: }\n",
  ],
  ["an Ingress that ends after its name", "kind: Ingress\nmetadata: {name: web}\nspec:\n"],
  ["a wildcard", "kind: Ingress\nmetadata: {name: web}\nspec: {rules: [{host: '*.example.com'}]}\n"],
  ["a kind of somebody else's with another spec", "kind: Widget\nmetadata: {name: w}\nspec: [1, 2]\n"],
  [
    "a Gateway of Istio's",
    "apiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {name: gw}\nspec: {listeners: x}\n",
  ],
  [
    "a Gateway and a route without hosts",
    `${GATEWAY_API}kind: Gateway\nmetadata: {name: gw}\n---\n${GATEWAY_API}kind: HTTPRoute\nmetadata: {name: r}\n`,
  ],
  ["hosts of a kind that is not read", "kind: Widget\nmetadata: {name: w}\nspec: {rules: [{host: 'a b'}]}\n"],
];
for (const [what, text] of FINE) {
  test(`no problem with ${what}`, () => assert.deepEqual(problems(text), []));
}
