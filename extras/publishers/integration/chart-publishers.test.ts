import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { NAMESPACE, named, render } from "#test/integration/rendered.ts";

// What the chart leaves behind to take a publisher's names out after it was switched off.

const REMOVED = ["coredns-import", "coredns", "external-dns"] as const;

/** The arguments of the hook's command behind `--set`. */
function removalOf(publisher: (typeof REMOVED)[number], publishers: object): string[] {
  const objects = render({ config: { publishers }, publishers: { remove: REMOVED } });
  const { command } = named(objects, "Job", `switchback-publisher-${publisher}-remove`).spec.template.spec
    .containers[0];
  const start = ["node", "cli/main.js", "publish", publisher, "--remove", "--yes", "--set", `namespace=${NAMESPACE}`];
  assert.deepEqual(command.slice(0, start.length), start);
  return command.slice(start.length);
}

describe("the hook of an uninstall", () => {
  /** The names of the Roles by which it takes names out. */
  const roles = (values: object) =>
    render(values)
      .filter(({ kind, metadata }) => kind === "Role" && metadata.name.startsWith("switchback-uninstall-"))
      .map(({ metadata }) => metadata.name);

  it("has the rights for publishers that are enabled, and for those that have left something", () => {
    assert.deepEqual(roles({}), []);
    assert.deepEqual(roles({ config: { publishers: { coredns: { enabled: true } } } }), [
      "switchback-uninstall-coredns",
    ]);
    assert.deepEqual(roles({ publishers: { remove: ["coredns-import"] } }), ["switchback-uninstall-coredns-import"]);
  });
});

describe("the hook that takes a publisher's names out", () => {
  it("looks where they were by default", () => {
    const kubeSystem = (section: string, configMap: string, key: string) =>
      Object.entries({ namespace: "kube-system", configMap, key }).map(
        ([name, value]) => `publishers.${section}.${name}=${value}`,
      );
    assert.deepEqual(removalOf("coredns", {}), kubeSystem("coredns", "coredns", "Corefile"));
    const imported = kubeSystem("corednsImport", "coredns-custom", "switchback.server");
    assert.deepEqual(removalOf("coredns-import", {}), imported);
    assert.deepEqual(removalOf("external-dns", {}), ["publishers.externalDns.kind=DNSEndpoint"]);
  });

  it("looks where the values say, and waits as long as they say, be it not at all", () => {
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
