import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { admission, deployments, install, rowsOf } from "#test/fakes/doctor-changes.ts";
import { entry, FORBIDDEN, HEALTHY, NOT_INSTALLED } from "#test/fakes/doctor-facts.ts";
import { known } from "../fact.ts";
import type { ClusterFacts } from "../facts.ts";

/** A change to the facts of a healthy installation, and all findings of the check after it. */
const CASES: readonly [what: string, change: Partial<ClusterFacts>, findings: string[]][] = [
  ["it is", {}, ["ok webhook-answers | new pods | the dry run of an opted-in pod in namespace default was injected"]],
  ["Switchback is not installed", NOT_INSTALLED, []],
  [
    "the dry run is not permitted",
    admission({ dryRun: FORBIDDEN }),
    [
      "unknown right-missing | new pods | missing permission: get that | run with the permission to create " +
        "pods in the namespace default, or set another --probe-namespace",
    ],
  ],
  [
    "it is not, and nothing shows why",
    admission({ dryRun: known({ outcome: "untouched" }) }),
    [
      "broken webhook-silent | new pods | the dry run of an opted-in pod in namespace default was admitted " +
        "but not injected | check the findings about the webhook configuration, " +
        "and the webhook's log | check that nothing between the API server and the webhook's pods blocks port " +
        "8443 (firewalls of managed control planes, NetworkPolicies)",
    ],
  ],
  [
    "it is not, in a namespace that is excluded",
    { ...admission({ dryRun: known({ outcome: "untouched" }) }), probeNamespace: "kube-system" },
    [
      "broken webhook-silent | new pods | the dry run of an opted-in pod in namespace kube-system was " +
        "admitted but not injected | namespace kube-system is excluded: set another --probe-namespace",
    ],
  ],
  [
    "it is not, in a namespace that only one entry excludes",
    {
      ...admission({
        dryRun: known({ outcome: "untouched" }),
        configuration: known([
          entry("namespace", { excludedNamespaces: [] }),
          entry("pod", { excludedNamespaces: ["kube-system", "default"] }),
        ]),
      }),
    },
    [
      "broken webhook-silent | new pods | the dry run of an opted-in pod in namespace default was admitted " +
        "but not injected | namespace default is excluded: set another --probe-namespace",
    ],
  ],
  [
    "it is not, and the configuration cannot be read",
    admission({ dryRun: known({ outcome: "untouched" }), configuration: FORBIDDEN }),
    [
      "broken webhook-silent | new pods | the dry run of an opted-in pod in namespace default was admitted " +
        "but not injected | check the findings about the webhook configuration, " +
        "and the webhook's log | check that nothing between the API server and the webhook's pods blocks port " +
        "8443 (firewalls of managed control planes, NetworkPolicies)",
    ],
  ],
  [
    "it is not, and no webhook pod is ready",
    { ...admission({ dryRun: known({ outcome: "untouched" }) }), ...deployments("switchback-webhook", 0) },
    [
      "broken webhook-silent | new pods | the dry run of an opted-in pod in namespace default was admitted " +
        "but not injected | no webhook pod is ready: check the Deployment switchback-webhook",
    ],
  ],
  [
    "it is not, and the one pod of the profile small is not ready",
    {
      ...admission({ dryRun: known({ outcome: "untouched" }) }),
      ...install({ deployments: known([{ name: "switchback-all", desired: 1, ready: 0, image: "", pullPolicy: "" }]) }),
    },
    [
      "broken webhook-silent | new pods | the dry run of an opted-in pod in namespace default was admitted " +
        "but not injected | no webhook pod is ready: check the Deployment switchback-all",
    ],
  ],
  [
    "it is not, and one webhook pod is ready",
    { ...admission({ dryRun: known({ outcome: "untouched" }) }), ...deployments("switchback-webhook", 1) },
    [
      "broken webhook-silent | new pods | the dry run of an opted-in pod in namespace default was admitted " +
        "but not injected | check the findings about the webhook configuration, " +
        "and the webhook's log | check that nothing between the API server and the webhook's pods blocks port " +
        "8443 (firewalls of managed control planes, NetworkPolicies)",
    ],
  ],
  [
    "it is not, and another component is not ready",
    { ...admission({ dryRun: known({ outcome: "untouched" }) }), ...deployments("switchback-proxy", 0) },
    [
      "broken webhook-silent | new pods | the dry run of an opted-in pod in namespace default was admitted " +
        "but not injected | check the findings about the webhook configuration, " +
        "and the webhook's log | check that nothing between the API server and the webhook's pods blocks port " +
        "8443 (firewalls of managed control planes, NetworkPolicies)",
    ],
  ],
  [
    "it is not, and Deployments cannot be read",
    { ...admission({ dryRun: known({ outcome: "untouched" }) }), ...install({ deployments: FORBIDDEN }) },
    [
      "broken webhook-silent | new pods | the dry run of an opted-in pod in namespace default was admitted " +
        "but not injected | check the findings about the webhook configuration, " +
        "and the webhook's log | check that nothing between the API server and the webhook's pods blocks port " +
        "8443 (firewalls of managed control planes, NetworkPolicies)",
    ],
  ],
  [
    "it is rejected because of the webhook",
    admission({ dryRun: known({ outcome: "blocked", text: "no answer" }) }),
    [
      "broken webhook-blocks | new pods | the dry run of an opted-in pod in namespace default was rejected: " +
        "no answer | set failurePolicy to Ignore; then check the webhook's pods",
    ],
  ],
  [
    "it is rejected for another reason",
    admission({ dryRun: known({ outcome: "refused", text: "quota" }) }),
    [
      "unknown dry-run-refused | new pods | the dry run of an opted-in pod in namespace default was " +
        "rejected: quota | set another --probe-namespace",
    ],
  ],
];

describe("the admission check says whether a new pod is injected:", () => {
  for (const [what, change, findings] of CASES) {
    test(what, () => assert.deepEqual(rowsOf("admission", { ...HEALTHY, ...change }), findings));
  }
});
