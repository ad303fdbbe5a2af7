import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { createSelector } from "#hostmap/pod-selection.ts";
import type { PublishedMap } from "#hostmap/types.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { install, namespaces, pod, relayed, rowsOf } from "#test/fakes/doctor-changes.ts";
import { CONFIG, FORBIDDEN, FRONT_IP, HEALTHY, NAME, NOT_INSTALLED } from "#test/fakes/doctor-facts.ts";
import { known } from "../fact.ts";
import type { ClusterFacts } from "../facts.ts";

const OWNED = "switchback.dev/owned";
const LOST = { annotations: { [OWNED]: "198.51.100.77 x1, 2001:db8::9 x2 (0123456789ab)" } };
const plain = { labels: {}, annotations: {}, aliasAddresses: [], node: "node-1" };
const named = (namespace: string, name: string, change: object = {}) => ({
  ...plain,
  namespace,
  name,
  owner: `${namespace}/Pod/${name}`,
  ...change,
});
const many = (count: number) => ({
  pods: known(Array.from({ length: count }, (_, index) => named("shop", `web-${index}`))),
});
const oneMore = publishedMapOf(
  "r1",
  new Map([
    [NAME, [FRONT_IP]],
    ["a.example.com", [FRONT_IP]],
  ]),
);
const mapped = (map: PublishedMap, change: Partial<ClusterFacts["install"]> = {}) => {
  const targets = [{ name: "ingress-nginx", clusterIPs: [FRONT_IP] }];
  return install({ map: known({ targets, map }), ...change });
};

const OWN_ALIASES =
  "warning pod-own-aliases | pods | the manifests of 1 pod(s) map names of the map, " +
  "such as OWN of the first: shop/web | remove these hostAliases from the manifests, for the first: ";
const ownAliases = (name: string, command: string) =>
  `${OWN_ALIASES.replace("OWN", name)}\`kubectl -n shop ${command}\` (docs/migrating.md)`;
const MATCHES = "ok pods-in-step | pods | 1 opted-in pod(s) match the published map";

/** A change to the facts of a healthy installation, and all findings of the check after it. */
const CASES: readonly [what: string, change: Partial<ClusterFacts>, findings: string[]][] = [
  ["its manifest maps other names", pod({ ownNames: ["legacy.example.net"] }), [MATCHES]],
  [
    "its manifest maps a name that is mapped, written otherwise",
    pod({ owner: "shop/Deployment/web", ownNames: [NAME.toUpperCase()] }),
    [
      MATCHES,
      ownAliases(
        NAME.toUpperCase(),
        `patch deployment web --type json -p '[{"op":"remove","path":"/spec/template/spec/hostAliases"}]'`,
      ),
    ],
  ],
  [
    "its manifest maps others, too",
    pod({ owner: "shop/StatefulSet/web", ownNames: ["legacy.example.net", NAME] }),
    [MATCHES, ownAliases(NAME, "edit statefulset web")],
  ],
  ["it has no template", pod({ owner: "shop/Pod/web", ownNames: [NAME] }), [MATCHES, ownAliases(NAME, "edit pod web")]],
  ...["shop/Deployment/web; reboot", "shop/Deployment; reboot/web", "shop/Deployment/web/$(reboot)"].map(
    (owner): (typeof CASES)[number] => [
      `it says that its owner is ${owner}`,
      pod({ owner, ownNames: [NAME] }),
      [MATCHES, `${OWN_ALIASES.replace("OWN", NAME).replace(/, for the first: $/, "")} (docs/migrating.md)`],
    ],
  ),
  ["one that matches", {}, ["ok pods-in-step | pods | 1 opted-in pod(s) match the published map"]],
  [
    "one that resolves through pod DNS",
    { pods: known([named("shop", "web", { annotations: { "switchback.dev/revision": "dns" } })]) },
    ["ok pods-in-step | pods | 1 opted-in pod(s) match the published map"],
  ],
  ["Switchback is not installed", NOT_INSTALLED, []],
  ["pods cannot be read", { pods: FORBIDDEN }, ["unknown right-missing | pods | missing permission: get that"]],
  [
    "namespaces cannot be read",
    { namespaces: FORBIDDEN },
    ["unknown right-missing | pods | missing permission: get that"],
  ],
  [
    "the map cannot be read",
    install({ map: FORBIDDEN }),
    ["unknown right-missing | pods | missing permission: get that"],
  ],
  [
    "there is no map",
    install({ map: known(undefined) }),
    ["broken map-missing | pods | there is no published map | check that a controller is the leader, and its log"],
  ],
  [
    "the map does not fit its index",
    install({
      map: known({
        targets: [],
        map: { code: "shard-missing", text: "a shard is missing" },
      }),
    }),
    ["unknown shard-missing | pods | a shard is missing | the controller may be publishing: run again"],
  ],
  ["there are none", { pods: known([]) }, ["ok no-pods | pods | there are no opted-in pods"]],
  ["none opted in", { pods: known([named("default", "a")]) }, ["ok no-pods | pods | there are no opted-in pods"]],
  [
    "none is in a namespace that is not excluded",
    { ...namespaces(["kube-system", "enabled"]), pods: known([named("kube-system", "a")]) },
    ["ok no-pods | pods | there are no opted-in pods"],
  ],
  [
    "one opted in by its own label",
    { pods: known([named("default", "a", { labels: { "switchback.dev/inject": "enabled" } })]) },
    [
      "broken pod-not-injected | pods | 1 pod(s) opted in, but were not injected: " +
        "they are older than the opt-in, or the webhook was unavailable: default/a | restart them: " +
        "`switchback restart NAMESPACE`, or `kubectl rollout restart` of their owners",
    ],
  ],
  [
    "five that were not injected",
    many(5),
    [
      "broken pod-not-injected | pods | 5 pod(s) opted in, but were not injected: " +
        "they are older than the opt-in, or the webhook was unavailable: shop/web-0, shop/web-1, shop/web-2, " +
        "shop/web-3, shop/web-4 | restart them: `switchback restart NAMESPACE`, " +
        "or `kubectl rollout restart` of their owners",
    ],
  ],
  [
    "six that were not injected",
    many(6),
    [
      "broken pod-not-injected | pods | 6 pod(s) opted in, but were not injected: " +
        "they are older than the opt-in, or the webhook was unavailable: shop/web-0, shop/web-1, shop/web-2, " +
        "shop/web-3, shop/web-4 and 1 more | restart them: `switchback restart NAMESPACE`, " +
        "or `kubectl rollout restart` of their owners",
    ],
  ],
  [
    "one of an earlier map",
    pod({ annotations: { "switchback.dev/revision": "0" } }),
    [
      "warning pod-stale | pods | 1 pod(s) with names or addresses of an earlier map: " +
        "shop/web | restart them: `switchback restart NAMESPACE`, or `kubectl rollout restart` of their owners",
    ],
  ],
  [
    "one that chose names by its annotation",
    {
      ...mapped(oneMore),
      ...pod({
        annotations: {
          "switchback.dev/hosts": NAME,
          "switchback.dev/revision": createSelector(oneMore, 500)(NAME).revision,
        },
      }),
    },
    ["ok pods-in-step | pods | 1 opted-in pod(s) match the published map"],
  ],
  [
    "an address that no target has",
    pod({ ...LOST, aliasAddresses: ["198.51.100.77"] }),
    [
      "broken pod-address-lost | pods | 1 pod(s) with an address that no longer belongs to a target and may " +
        "now be another Service's: shop/web | restart them: `switchback restart NAMESPACE`, " +
        "or `kubectl rollout restart` of their owners",
    ],
  ],
  [
    "the second address that no target has",
    pod({ ...LOST, aliasAddresses: ["2001:db8::9"] }),
    [
      "broken pod-address-lost | pods | 1 pod(s) with an address that no longer belongs to a target and may " +
        "now be another Service's: shop/web | restart them: `switchback restart NAMESPACE`, " +
        "or `kubectl rollout restart` of their owners",
    ],
  ],
  [
    "an address of its own that no target has",
    pod({ ...LOST, aliasAddresses: ["203.0.113.1"] }),
    [
      "broken pod-not-injected | pods | 1 pod(s) opted in, but were not injected: " +
        "they are older than the opt-in, or the webhook was unavailable: shop/web | restart them: " +
        "`switchback restart NAMESPACE`, or `kubectl rollout restart` of their owners",
    ],
  ],
  [
    "an address of a target that no name uses any more",
    {
      ...pod({ ...LOST, aliasAddresses: ["198.51.100.77"] }),
      ...relayed({ clusterIPs: ["198.51.100.77", "2001:db8::9"] }),
    },
    [
      "broken pod-not-injected | pods | 1 pod(s) opted in, but were not injected: " +
        "they are older than the opt-in, or the webhook was unavailable: shop/web | restart them: " +
        "`switchback restart NAMESPACE`, or `kubectl rollout restart` of their owners",
    ],
  ],
  [
    "an address of a target in the index only",
    { ...install({ targets: FORBIDDEN }) },
    ["ok pods-in-step | pods | 1 opted-in pod(s) match the published map"],
  ],
  [
    "one that is not opted in any more",
    namespaces(["shop", "disabled"]),
    [
      "warning pod-left-over | pods | 1 pod(s) with a mapping, but no longer opted in: " +
        "shop/web | restart them: `switchback restart NAMESPACE`, or `kubectl rollout restart` of their owners",
    ],
  ],
  [
    "one of each",
    {
      pods: known([
        named("shop", "new"),
        named("shop", "lost", { ...LOST, aliasAddresses: ["198.51.100.77"] }),
        named("shop", "old", { annotations: { "switchback.dev/revision": "0" } }),
        named("default", "left", { annotations: { [OWNED]: "198.51.100.9 x1 (0123456789ab)" } }),
        ...(HEALTHY.pods.known ? HEALTHY.pods.value : []),
      ]),
    },
    [
      "broken pod-not-injected | pods | 1 pod(s) opted in, but were not injected: " +
        "they are older than the opt-in, or the webhook was unavailable: shop/new | restart them: " +
        "`switchback restart NAMESPACE`, or `kubectl rollout restart` of their owners",
      "broken pod-address-lost | pods | 1 pod(s) with an address that no longer belongs to a target and may " +
        "now be another Service's: shop/lost | restart them: `switchback restart NAMESPACE`, " +
        "or `kubectl rollout restart` of their owners",
      "warning pod-stale | pods | 1 pod(s) with names or addresses of an earlier map: " +
        "shop/old | restart them: `switchback restart NAMESPACE`, or `kubectl rollout restart` of their owners",
      "warning pod-left-over | pods | 1 pod(s) with a mapping, but no longer opted in: " +
        "default/left | restart them: `switchback restart NAMESPACE`, " +
        "or `kubectl rollout restart` of their owners",
      "ok pods-in-step | pods | 1 opted-in pod(s) match the published map",
    ],
  ],
  [
    "names up to the configured number count",
    {
      ...mapped(oneMore, { config: known({ ...CONFIG, inject: { ...CONFIG.inject, maxNames: 1 } }) }),
      ...pod({ annotations: { "switchback.dev/revision": createSelector(oneMore, 1)(undefined).revision } }),
    },
    ["ok pods-in-step | pods | 1 opted-in pod(s) match the published map"],
  ],
  [
    "without a configuration, the default number counts",
    { install: { ...HEALTHY.install, config: FORBIDDEN } },
    ["ok pods-in-step | pods | 1 opted-in pod(s) match the published map"],
  ],
];

describe("the pods check compares opted-in pods with the map:", () => {
  for (const [what, change, findings] of CASES) {
    test(what, () => assert.deepEqual(rowsOf("pods", { ...HEALTHY, ...change }), findings));
  }
});
