import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { parse, stringify } from "yaml";
import { binary } from "../cluster/binaries.ts";
import { direct, NAMESPACE, type Rendered, relayed } from "./rendered.ts";

// Every account of the chart that may write has a fence: an admission policy that names it. A fence covers each
// resource and namespace that the account may write, for as long as the account exists.

const CHART = fileURLToPath(new URL("../../manifests/chart", import.meta.url));
const helm = await binary("helm");
const run = promisify(execFile);
const KINDS = /^kind: (Cluster)?Role(Binding)?$|^kind: ValidatingAdmissionPolicy(Binding)?$/m;
const READS = ["get", "list", "watch"];
const RENDERS = 2;

/** Each switch of the values that may give an account a right. */
const SWITCHES: Readonly<Record<string, object>> = {
  "profile: small": { profile: "small" },
  agent: { agent: { enabled: true } },
  "pod DNS": { podDns: { enabled: true, image: "registry.example.com/coredns:1" } },
  "coredns-import": { config: { publishers: { corednsImport: { enabled: true } } } },
  coredns: { config: { publishers: { coredns: { enabled: true } } } },
  "external-dns": { config: { publishers: { externalDns: { enabled: true } } } },
  "external-dns by Services": { config: { publishers: { externalDns: { enabled: true, kind: "Service" } } } },
  "removed publishers": { publishers: { remove: ["coredns", "coredns-import", "external-dns"] } },
  restarts: { config: { restart: { namespaces: ["shop"] } } },
  "no discovery": { config: { discovery: { enabled: false }, targets: [relayed, direct] } },
  "no uninstall": { uninstall: { enabled: false } },
  "no check": { installCheck: { enabled: false } },
  "cert-manager": { config: { certs: { mode: "cert-manager" } } },
  "other accounts": { controller: { serviceAccount: { name: "mine" } }, agent: { serviceAccount: { name: "theirs" } } },
  Services: { config: { sources: { services: { enabled: true } } } },
  "node hosts": { config: { nodeHosts: { names: ["a.example.com"] } } },
  NetworkPolicies: { networkPolicy: { enabled: true } },
};

/** A right to write: the account, where and what it may write, and the hook that needs it. */
interface Right {
  readonly account: string;
  /** Undefined for all namespaces. */
  readonly namespace: string | undefined;
  readonly resource: string;
  readonly hook: string | undefined;
}

function merged(one: Rendered, other: Rendered): Rendered {
  const isObject = (value: Rendered) => value?.constructor === Object;
  const both = Object.keys(other).filter((key) => isObject(one[key]) && isObject(other[key]));
  return { ...one, ...other, ...Object.fromEntries(both.map((key) => [key, merged(one[key], other[key])])) };
}

const parsed = new Map<string, Rendered>();
async function rightsAndPolicies(values: object): Promise<Rendered[]> {
  const args = ["template", "switchback", CHART, "--namespace", NAMESPACE, "--values", "-"];
  const rendering = run(helm, args, { maxBuffer: 1 << 26 });
  rendering.child.stdin?.end(stringify(values));
  const texts = (await rendering).stdout.split("\n---\n").filter((text) => KINDS.test(text));
  return texts.map((text) => {
    if (!parsed.has(text)) parsed.set(text, parse(text));
    return parsed.get(text);
  });
}

/** Whether RBAC alone says what the right allows: it reads, or deletes or scales what it names. */
function isNarrow({ verbs, resources, resourceNames = [] }: Rendered): boolean {
  const others = verbs.filter((verb: string) => !READS.includes(verb));
  const scales = resources.every((resource: string) => resource.endsWith("/scale"));
  return others.every((verb: string) => resourceNames.length > 0 && (verb === "delete" || scales));
}

const hookOf = ({ metadata }: Rendered): string | undefined => metadata.annotations?.["helm.sh/hook"];

/** What accounts may write. */
function rightsOf(objects: readonly Rendered[]): Right[] {
  return objects.flatMap((binding) => {
    if (!/^(Cluster)?RoleBinding$/.test(binding.kind)) return [];
    const { roleRef, subjects, metadata } = binding;
    const namespace = binding.kind === "RoleBinding" ? metadata.namespace : undefined;
    const role = objects.find(
      (one) =>
        one.kind === roleRef.kind &&
        one.metadata.name === roleRef.name &&
        (one.kind === "ClusterRole" || one.metadata.namespace === namespace),
    );
    assert.ok(role, `${metadata.name}: no ${roleRef.kind} ${roleRef.name}`);
    const writes = role.rules.filter((rule: Rendered) => !isNarrow(rule));
    const resources = writes.flatMap(({ apiGroups, resources }: Rendered) =>
      apiGroups.flatMap((group: string) => resources.map((resource: string) => `${group}/${resource}`)),
    );
    return subjects.flatMap((subject: Rendered) =>
      resources.map((resource: string) => ({
        account: `system:serviceaccount:${subject.namespace}:${subject.name}`,
        namespace,
        resource,
        hook: hookOf(binding),
      })),
    );
  });
}

function isFenced({ account, namespace, resource, hook }: Right, objects: readonly Rendered[]): boolean {
  return objects.some((policy) => {
    if (policy.kind !== "ValidatingAdmissionPolicy") return false;
    const { matchConstraints, matchConditions, failurePolicy } = policy.spec;
    const names =
      matchConditions[0].expression.includes(`'${account}'`) || matchConditions[0].expression.includes(`"${account}"`);
    const covers = matchConstraints.resourceRules.some(
      ({ operations, apiGroups, resources }: Rendered) =>
        operations.join() === "CREATE,UPDATE,DELETE" &&
        apiGroups.some((group: string) => resources.some((each: string) => `${group}/${each}` === resource)),
    );
    const among = matchConstraints.namespaceSelector?.matchExpressions[0].values;
    const isBound = objects.some(
      ({ kind, spec }) => kind === "ValidatingAdmissionPolicyBinding" && spec.policyName === policy.metadata.name,
    );
    // After the release is deleted, none of its policies is left.
    const isThere = hook !== "post-delete";
    const applies = among === undefined || (namespace !== undefined && among.includes(namespace));
    return names && covers && applies && isBound && isThere && failurePolicy === "Fail";
  });
}

function unfenced(objects: readonly Rendered[]): string[] {
  const rights = rightsOf(objects);
  assert.ok(rights.length > 0);
  return rights
    .filter((right) => !isFenced(right, objects))
    .map(({ account, namespace = "everywhere", resource }) => `${account} may write ${resource} in ${namespace}`);
}

/** Equal for two renderings with the same rights and the same policies' constraints. */
function fenceOf(objects: readonly Rendered[]): string {
  const constraints = objects.flatMap(({ kind, metadata, spec }) =>
    kind === "ValidatingAdmissionPolicy" ? [metadata.name, spec.matchConstraints, spec.matchConditions] : [],
  );
  return JSON.stringify([rightsOf(objects), constraints]);
}

describe("a policy names every account that may write", () => {
  const single = Object.keys(SWITCHES);
  it(`with each of ${single.length} switches alone, and pairs of those that change a right or a policy`, async () => {
    const found = new Map<string, string>();
    const renderAll = (queue: string[][]) => {
      const work = async () => {
        for (let names = queue.shift(); names !== undefined; names = queue.shift()) await render(names);
      };
      return Promise.all(Array.from({ length: RENDERS }, work));
    };
    const fences = new Map<string, string>();
    const render = async (names: readonly string[]) => {
      const objects = await rightsAndPolicies(names.map((name) => SWITCHES[name] ?? {}).reduce(merged, {}));
      fences.set(names.join(" and "), fenceOf(objects));
      for (const right of unfenced(objects)) if (!found.has(right)) found.set(right, names.join(" and "));
    };
    await renderAll([[], ...single.map((one) => [one])]);
    // Not all pairs, which would take minutes. No template gives a right for two switches if neither gives one alone.
    const active = single.filter((one) => fences.get(one) !== fences.get(""));
    await renderAll(active.flatMap((one, index) => active.slice(index + 1).map((other) => [one, other])));
    assert.deepEqual(found, new Map());
  });

  it("and the test would detect an account without one", async () => {
    const objects = await rightsAndPolicies({ agent: { enabled: true } });
    for (const name of ["switchback-changes", "switchback-own-objects"]) {
      const others = objects.filter(
        ({ kind, metadata }) => kind !== "ValidatingAdmissionPolicy" || metadata.name !== name,
      );
      assert.notDeepEqual(unfenced(others), []);
    }
    assert.ok(unfenced(await rightsAndPolicies({ admission: { policies: false } })).length > 5);
  });
});
