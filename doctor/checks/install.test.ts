import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  ANSWERED,
  deployments,
  entries,
  install,
  probe,
  REFUSED,
  rowsOf,
  services,
} from "#test/fakes/doctor-changes.ts";
import { CONFIG, entry, FORBIDDEN, HEALTHY, NGINX, NOT_INSTALLED } from "#test/fakes/doctor-facts.ts";
import { known } from "../fact.ts";
import type { ClusterFacts } from "../facts.ts";

const OTHER = { namespace: "other", name: "w", port: 443 };
const ABSENT = NOT_INSTALLED.install;

/** A change to the facts of a healthy installation, and all findings of the check after it. */
const CASES: readonly [what: string, change: Partial<ClusterFacts>, findings: string[]][] = [
  [
    "three Deployments that are ready",
    {},
    [
      "ok deployment-ready | Deployment switchback-system/switchback-controller | 2 of 2 pods are ready",
      "ok deployment-ready | Deployment switchback-system/switchback-webhook | 2 of 2 pods are ready",
      "ok deployment-ready | Deployment switchback-system/switchback-proxy | 2 of 2 pods are ready",
    ],
  ],
  [
    "a Deployment without a pod that is ready",
    deployments("switchback-controller", 0),
    [
      "broken deployment-not-ready | Deployment switchback-system/switchback-controller | 0 of 2 pods are " +
        "ready: names and certificates are not kept current | check its pods with `kubectl describe pod`, " +
        "and their logs",
      "ok deployment-ready | Deployment switchback-system/switchback-webhook | 2 of 2 pods are ready",
      "ok deployment-ready | Deployment switchback-system/switchback-proxy | 2 of 2 pods are ready",
    ],
  ],
  [
    "a Deployment that is scaled down",
    deployments("switchback-webhook", 0, 0),
    [
      "ok deployment-ready | Deployment switchback-system/switchback-controller | 2 of 2 pods are ready",
      "broken deployment-not-ready | Deployment switchback-system/switchback-webhook | 0 of 0 pods are " +
        "ready: new pods are not injected | scale Deployment switchback-system/switchback-webhook up",
      "ok deployment-ready | Deployment switchback-system/switchback-proxy | 2 of 2 pods are ready",
    ],
  ],
  [
    "a Deployment with a pod of two",
    deployments("switchback-proxy", 1),
    [
      "ok deployment-ready | Deployment switchback-system/switchback-controller | 2 of 2 pods are ready",
      "ok deployment-ready | Deployment switchback-system/switchback-webhook | 2 of 2 pods are ready",
      "warning deployment-degraded | Deployment switchback-system/switchback-proxy | 1 of 2 pods are ready | " +
        "check its pods with `kubectl describe pod`",
    ],
  ],
  [
    "none but a Deployment of somebody else",
    install({ deployments: known([{ name: "web", desired: 1, ready: 1, image: "", pullPolicy: "" }]) }),
    [
      "broken deployment-missing | Deployment switchback-system/switchback-controller | it does not exist: " +
        "names and certificates are not kept current | reinstall the chart",
      "broken deployment-missing | Deployment switchback-system/switchback-webhook | it does not exist: " +
        "new pods are not injected | reinstall the chart",
      "broken deployment-missing | Deployment switchback-system/switchback-proxy | it does not exist: " +
        "connections to mapped names fail | reinstall the chart",
    ],
  ],
  [
    "Deployments cannot be read",
    install({ deployments: FORBIDDEN }),
    ["unknown right-missing | Deployments | missing permission: get that"],
  ],
  [
    "nothing, and pods bypass a load balancer",
    NOT_INSTALLED,
    [
      "warning not-installed | namespace switchback-system | Switchback is not installed, " +
        "and pods bypass a load balancer | if an ingress controller requires a PROXY header (check with " +
        "--probe), install Switchback or apply one of the cures above",
    ],
  ],
  [
    "nothing, and no load balancer is bypassed",
    { ...NOT_INSTALLED, ...services({ ...NGINX, entries: [{ ip: "192.0.2.80", ipMode: "Proxy" }] }) },
    [
      "ok not-needed | namespace switchback-system | Switchback is not installed, " +
        "and no load balancer needs a mapping",
    ],
  ],
  [
    "nothing, and the probe got an answer where pods bypass a load balancer",
    { ...NOT_INSTALLED, ...probe({ balancer: ANSWERED }) },
    [
      "ok not-needed | namespace switchback-system | Switchback is not installed, " +
        "and no load balancer needs a mapping",
    ],
  ],
  [
    "nothing, and the probe got no answer there: nobody has to probe again",
    { ...NOT_INSTALLED, ...probe({}) },
    [
      "warning not-installed | namespace switchback-system | Switchback is not installed, " +
        "and pods do not get through a load balancer | install Switchback, or apply one of the cures above",
    ],
  ],
  [
    "nothing, and the probe found no ingress controller that works",
    { ...NOT_INSTALLED, ...probe({ none: REFUSED, v1: REFUSED, v2: REFUSED, balancer: REFUSED }) },
    [
      "warning not-installed | namespace switchback-system | Switchback is not installed, " +
        "and pods bypass a load balancer | if an ingress controller requires a PROXY header, " +
        "install Switchback or apply one of the cures above",
    ],
  ],
  [
    "nothing, and a load balancer has no address yet",
    { ...NOT_INSTALLED, ...services({ ...NGINX, entries: [] }) },
    [
      "ok not-needed | namespace switchback-system | Switchback is not installed, " +
        "and no load balancer needs a mapping",
    ],
  ],
  [
    "nothing, and Services cannot be read",
    { ...NOT_INSTALLED, services: FORBIDDEN },
    ["unknown right-missing | namespace switchback-system | Switchback is not installed; missing permission: get that"],
  ],
  [
    "a Deployment of somebody else, and a load balancer that is bypassed",
    {
      ...NOT_INSTALLED,
      install: { ...ABSENT, deployments: known([{ name: "web", desired: 1, ready: 1, image: "", pullPolicy: "" }]) },
    },
    [
      "warning not-installed | namespace switchback-system | Switchback is not installed, " +
        "and pods bypass a load balancer | if an ingress controller requires a PROXY header (check with " +
        "--probe), install Switchback or apply one of the cures above",
    ],
  ],
  [
    "one Deployment only, among others",
    {
      ...NOT_INSTALLED,
      install: {
        ...ABSENT,
        deployments: known([
          { name: "web", desired: 1, ready: 1, image: "", pullPolicy: "" },
          { name: "switchback-proxy", desired: 1, ready: 1, image: "", pullPolicy: "" },
        ]),
      },
    },
    [
      "broken deployment-missing | Deployment switchback-system/switchback-controller | it does not exist: " +
        "names and certificates are not kept current | reinstall the chart",
      "broken deployment-missing | Deployment switchback-system/switchback-webhook | it does not exist: " +
        "new pods are not injected | reinstall the chart",
      "ok deployment-ready | Deployment switchback-system/switchback-proxy | 1 of 1 pods are ready",
    ],
  ],
  [
    "the one Deployment of the profile small",
    install({
      deployments: known([{ name: "switchback-all", desired: 1, ready: 0, image: "", pullPolicy: "" }]),
    }),
    [
      "broken deployment-not-ready | Deployment switchback-system/switchback-all | 0 of 1 pods are ready: " +
        "connections to mapped names fail, new pods are not injected, " +
        "and names are not kept current | check its pods with `kubectl describe pod`, and their logs",
    ],
  ],
  [
    "a configuration only",
    { ...NOT_INSTALLED, install: { ...ABSENT, config: known(CONFIG) } },
    [
      "broken deployment-missing | Deployment switchback-system/switchback-controller | it does not exist: " +
        "names and certificates are not kept current | reinstall the chart",
      "broken deployment-missing | Deployment switchback-system/switchback-webhook | it does not exist: " +
        "new pods are not injected | reinstall the chart",
      "broken deployment-missing | Deployment switchback-system/switchback-proxy | it does not exist: " +
        "connections to mapped names fail | reinstall the chart",
    ],
  ],
  [
    "a webhook configuration only",
    {
      ...NOT_INSTALLED,
      admission: {
        ...NOT_INSTALLED.admission,
        configuration: known([entry("namespace", { service: OTHER }), entry("pod")]),
      },
    },
    [
      "warning installed-elsewhere | namespace switchback-system | the webhook configuration points to " +
        "namespace other | run with --namespace other",
      "broken deployment-missing | Deployment switchback-system/switchback-controller | it does not exist: " +
        "names and certificates are not kept current | reinstall the chart",
      "broken deployment-missing | Deployment switchback-system/switchback-webhook | it does not exist: " +
        "new pods are not injected | reinstall the chart",
      "broken deployment-missing | Deployment switchback-system/switchback-proxy | it does not exist: " +
        "connections to mapped names fail | reinstall the chart",
    ],
  ],
  [
    "a webhook configuration without a Service",
    {
      ...NOT_INSTALLED,
      admission: { ...NOT_INSTALLED.admission, configuration: known([entry("pod", { service: undefined })]) },
    },
    [
      "broken deployment-missing | Deployment switchback-system/switchback-controller | it does not exist: " +
        "names and certificates are not kept current | reinstall the chart",
      "broken deployment-missing | Deployment switchback-system/switchback-webhook | it does not exist: " +
        "new pods are not injected | reinstall the chart",
      "broken deployment-missing | Deployment switchback-system/switchback-proxy | it does not exist: " +
        "connections to mapped names fail | reinstall the chart",
    ],
  ],
  [
    "an installation in another namespace",
    {
      ...NOT_INSTALLED,
      admission: {
        ...NOT_INSTALLED.admission,
        configuration: known([entry("namespace", { service: undefined }), entry("pod", { service: OTHER })].slice(1)),
      },
    },
    [
      "warning installed-elsewhere | namespace switchback-system | the webhook configuration points to " +
        "namespace other | run with --namespace other",
    ],
  ],
  [
    "nothing that can be read",
    {
      ...NOT_INSTALLED,
      install: { ...ABSENT, config: FORBIDDEN, deployments: FORBIDDEN },
      admission: { ...NOT_INSTALLED.admission, configuration: FORBIDDEN },
    },
    ["unknown right-missing | Deployments | missing permission: get that"],
  ],
  [
    "a webhook of another namespace as well",
    entries(["namespace", { service: OTHER }], ["pod"]),
    [
      "warning installed-elsewhere | namespace switchback-system | the webhook configuration points to " +
        "namespace other | run with --namespace other",
      "ok deployment-ready | Deployment switchback-system/switchback-controller | 2 of 2 pods are ready",
      "ok deployment-ready | Deployment switchback-system/switchback-webhook | 2 of 2 pods are ready",
      "ok deployment-ready | Deployment switchback-system/switchback-proxy | 2 of 2 pods are ready",
    ],
  ],
];

describe("the install check says what is there:", () => {
  for (const [what, change, findings] of CASES) {
    test(what, () => assert.deepEqual(rowsOf("install", { ...HEALTHY, ...change }), findings));
  }
});
