import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { NAMESPACE, named, render } from "#test/integration/rendered.ts";

// The chart's hooks, which take a publisher's names out after it was switched off, or at an uninstall.

const REMOVED = ["coredns-import", "coredns", "external-dns"] as const;

/** The values of `--set` in the hook's command, without the namespace. */
function removalOf(publisher: (typeof REMOVED)[number], publishers: object): string[] {
  const objects = render({ config: { publishers }, publishers: { remove: REMOVED } });
  const { command } = named(objects, "Job", `switchback-publisher-${publisher}-remove`).spec.template.spec
    .containers[0];
  const start = ["node", "cli/main.js", "publish", publisher, "--remove", "--yes", "--set", `namespace=${NAMESPACE}`];
  assert.deepEqual(command.slice(0, start.length), start);
  return command.slice(start.length);
}

describe("the hook of an uninstall", () => {
  /** Names of the Roles that let the hook take names out. */
  const roles = (values: object) =>
    render(values)
      .filter(({ kind, metadata }) => kind === "Role" && metadata.name.startsWith("switchback-uninstall-"))
      .map(({ metadata }) => metadata.name);

  it("has rights for enabled publishers, and for those in publishers.remove", () => {
    assert.deepEqual(roles({}), []);
    assert.deepEqual(roles({ config: { publishers: { coredns: { enabled: true } } } }), [
      "switchback-uninstall-coredns",
    ]);
    assert.deepEqual(roles({ publishers: { remove: ["coredns-import"] } }), ["switchback-uninstall-coredns-import"]);
  });
});

describe("the hook that takes a publisher's names out", () => {
  it("looks in the default places", () => {
    const kubeSystem = (section: string, configMap: string, key: string) =>
      Object.entries({ namespace: "kube-system", configMap, key }).map(
        ([name, value]) => `publishers.${section}.${name}=${value}`,
      );
    assert.deepEqual(removalOf("coredns", {}), kubeSystem("coredns", "coredns", "Corefile"));
    const imported = kubeSystem("corednsImport", "coredns-custom", "switchback.server");
    assert.deepEqual(removalOf("coredns-import", {}), imported);
    assert.deepEqual(removalOf("external-dns", {}), ["publishers.externalDns.kind=DNSEndpoint"]);
  });

  it("looks in the places of the values, and waits as long as they say, also 0 seconds", () => {
    const coredns = { configMap: "theirs", key: "main" };
    const found = removalOf("coredns", { coredns });
    assert.deepEqual(found.slice(1), ["publishers.coredns.configMap=theirs", "publishers.coredns.key=main"]);
    for (const removeWaitSeconds of [0, 600]) {
      assert.deepEqual(removalOf("external-dns", { externalDns: { kind: "Service", removeWaitSeconds } }), [
        "publishers.externalDns.kind=Service",
        `publishers.externalDns.removeWaitSeconds=${removeWaitSeconds}`,
      ]);
    }
  });
});
