import assert from "node:assert/strict";
import { test } from "node:test";
import { NAMESPACE, render, testInstalls } from "#test/integration/rendered.ts";

// The chart's hooks, which take a publisher's names out after it was switched off, or at an uninstall.

test("the hook of an uninstall has rights for enabled publishers, and for those in publishers.remove", () => {
  const roles = (values: object) =>
    render(values)
      .filter(({ kind, metadata }) => kind === "Role" && metadata.name.startsWith("switchback-uninstall-"))
      .map(({ metadata }) => metadata.name);
  assert.deepEqual(roles({}), []);
  assert.deepEqual(roles({ config: { publishers: { coredns: { enabled: true } } } }), ["switchback-uninstall-coredns"]);
  assert.deepEqual(roles({ publishers: { remove: ["coredns-import"] } }), ["switchback-uninstall-coredns-import"]);
});

const kubeSystem = { namespace: "kube-system" };
for (const [publisher, section, given, settings] of [
  ["coredns", "coredns", {}, { ...kubeSystem, configMap: "coredns" }],
  ["coredns", "coredns", { configMap: "theirs" }, { ...kubeSystem, configMap: "theirs" }],
  ["coredns-import", "corednsImport", {}, { ...kubeSystem, configMap: "coredns-custom", key: "switchback.server" }],
  ["external-dns", "externalDns", {}, { kind: "DNSEndpoint" }],
  ["external-dns", "externalDns", { removeWaitSeconds: 0 }, { kind: "DNSEndpoint", removeWaitSeconds: 0 }],
] as const) {
  const job = `Job switchback-publisher-${publisher}-remove spec template spec containers 0 command`;
  const command = ["node", "cli/main.js", "publish", publisher, "--remove", "--yes", "--set", `namespace=${NAMESPACE}`];
  const places = Object.entries(settings).map(([name, value]) => `publishers.${section}.${name}=${value}`);
  const values = { config: { publishers: { [section]: given } }, publishers: { remove: [publisher] } };
  const title = `the hook takes the names of ${publisher} out of ${JSON.stringify(settings)}`;
  testInstalls([title, values, { [job]: [...command, ...places] }]);
}
