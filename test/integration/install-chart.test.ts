import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { bundles, helm, kubectl, NAMESPACE, TOP, tokens, useControlPlane, writeBundle } from "./install-rig.ts";

// The chart on a real API server: installed, upgraded and removed as a user would.

useControlPlane();

/** The arguments of README.md's `helm install`, with the path of this chart in place of the released one. */
function readmeArguments(): string[] {
  const readme = readFileSync(`${TOP}README.md`, "utf8");
  const [, command] = /^ {4}helm (install (?:.*\\\n)*.*)$/m.exec(readme) ?? [];
  assert.ok(command, "README.md installs the chart");
  const here = command.replace(/ #.*$/, "").replace(/ oci:\S+ --version \S+ /, ` ${TOP}manifests/chart `);
  assert.notEqual(here, command, "the released chart");
  const words = here.replaceAll("\\\n", " ").split(/\s+/);
  return words.filter(Boolean).map((word) => word.replaceAll("'", ""));
}

describe("the chart", () => {
  const release = ["switchback", `${TOP}manifests/chart`, "--namespace", NAMESPACE];
  const rolesOf = async (namespace: string) =>
    await kubectl("get", "roles,rolebindings", "--namespace", namespace, "-o", "name");
  const generations = async () =>
    await kubectl("get", "deployments", "-n", NAMESPACE, "-o", "jsonpath={.items[*].metadata.generation}");

  it("installs as README.md says without the namespace to restart in, and an upgrade adds its Roles", async () => {
    const args = readmeArguments();
    assert.ok(args.includes("config.optIn.namespaces={cert-manager}"), args.join(" "));
    assert.match(await helm(...args), /WARNING: .* do not exist: cert-manager\.[\s\S]*--reset-then-reuse-values/);
    const upgrade = ["upgrade", ...release, "--reset-then-reuse-values"];
    await kubectl("create", "namespace", "cert-manager");
    assert.doesNotMatch(await rolesOf("cert-manager"), /switchback/);
    const before = await generations();
    assert.doesNotMatch(await helm(...upgrade), /WARNING/);
    const roles = ["role", "rolebinding"].map((kind) => `${kind}.rbac.authorization.k8s.io/switchback-restart`);
    assert.deepEqual((await rolesOf("cert-manager")).trim().split("\n"), roles);
    assert.equal(await generations(), before, "no pod is replaced for it");
    await kubectl("delete", "namespace", "cert-manager", "--wait", "--timeout=60s");
    assert.match(await helm(...upgrade), /do not exist: cert-manager/);
    await helm("uninstall", "switchback", "--namespace", NAMESPACE, "--wait", "--no-hooks");
  });

  it("installs into a new namespace with only defaults", async () => {
    const notes = await helm("install", ...release, "--create-namespace");
    assert.match(notes, /switchback\.dev\/inject=enabled/);
    assert.deepEqual(await bundles(), [undefined, undefined, undefined]);
  });

  it("upgrades with changed values and leaves the caBundle in place", async () => {
    tokens.clear();
    const caBundle = await writeBundle();
    await helm("upgrade", ...release, "--set", "proxy.replicas=3", "--set", "config.log.level=debug");
    assert.deepEqual(await bundles(), [caBundle, caBundle, caBundle]);
    await helm("rollback", "switchback", "1", "--namespace", NAMESPACE);
    assert.deepEqual(await bundles(), [caBundle, caBundle, caBundle]);
  });

  it("accepts every option that needs no further kinds", async () => {
    const values = ["networkPolicy.enabled=true", "config.certs.mode=files", "certFiles.secretName=mine"];
    await helm("upgrade", ...release, ...values.flatMap((value) => ["--set", value]));
    const policies = await kubectl("get", "networkpolicies", "--namespace", NAMESPACE, "-o", "name");
    assert.equal(policies.trim().split("\n").length, 3);
  });

  it("leaves none of its objects after an uninstall", async () => {
    // No node here runs the Jobs of the hooks; uninstall.test.ts runs their commands.
    await helm("uninstall", "switchback", "--namespace", NAMESPACE, "--wait", "--no-hooks");
    const namespaced = "deployments,services,serviceaccounts,configmaps,roles,rolebindings,networkpolicies,pdb";
    const wide = "clusterroles,clusterrolebindings,mutatingwebhookconfigurations";
    const left = [
      await kubectl("get", namespaced, "--namespace", NAMESPACE, "-o", "name"),
      await kubectl("get", wide, "-o", "name"),
    ].join("\n");
    assert.doesNotMatch(left, /\/switchback-/);
  });
});
