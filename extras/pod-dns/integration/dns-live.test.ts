import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { query } from "#test/fakes/dns-message.ts";
import { type CoreDns, CoreDnsBed, LOCAL } from "#test/integration/coredns.ts";
import { ingress } from "#test/integration/objects.ts";
import { NAMESPACE, type System, startSystem, until } from "#test/integration/system.ts";
import type { Replica } from "#test/integration/system-options.ts";
import { startResolver } from "./start-resolver.ts";

// `switchback dns` with the chart's account and a real CoreDNS: names that are written in the cluster are answered.

interface Deployment {
  readonly spec: { readonly template: { readonly spec: object } };
}

let system: System;
let bed: CoreDnsBed;
let sidecar: Replica;
let resolver: CoreDns;
let directory: string;

before(async () => {
  system = await startSystem({
    audit: true,
    values: {
      podDns: { enabled: true, image: "registry.example.com/coredns:1" },
      config: { map: { vanishSeconds: 0 } },
    },
  });
  bed = new CoreDnsBed();
  directory = mkdtempSync(join(tmpdir(), "switchback-dns-files-"));
  const nobody = await bed.upstream("upstream", {});
  sidecar = await system.startDns(directory);
  resolver = await startResolver(bed, "resolver", { directory, upstream: `${LOCAL}:${nobody.port}` });
});
after(async () => {
  await system?.stop();
  await bed?.stop();
  if (directory !== undefined) rmSync(directory, { recursive: true });
});

const answers = async (name: string) => (await query(resolver, name, "A")).addresses;
const sixOf = async (name: string) => (await query(resolver, name, "AAAA")).addresses;

describe("the sidecar with the rights of its account", () => {
  it("adds names and wildcards of an Ingress to CoreDNS, and removes them", async () => {
    await system.apply(ingress("shop", ["shop.example.com", "*.shop.example.com"]));
    await until("the name", async () => (await answers("shop.example.com")).length === 1);
    await until("the wildcard", async () => (await answers("a.shop.example.com")).length === 1);
    const published = (await system.published()).get("shop.example.com") ?? [];
    assert.deepEqual([await answers("a.shop.example.com"), await sixOf("a.shop.example.com")].flat(), published);
    assert.deepEqual(await answers("b.a.shop.example.com"), []);
    await system.kubectl("delete", "ingress", "shop");
    await until("they are gone", async () => (await answers("shop.example.com")).length === 0);
  });

  it("was not refused, and requested only the map", async () => {
    const entries = (await system.audit.entries()).filter(({ user }) => user.username.endsWith(":switchback-dns"));
    assert.notEqual(entries.length, 0);
    assert.deepEqual([...new Set(entries.map(({ verb, objectRef }) => `${verb} ${objectRef?.resource}`))].toSorted(), [
      "list configmaps",
      "watch configmaps",
    ]);
    assert.deepEqual(
      entries.filter(({ responseStatus }) => responseStatus?.code === 403),
      [],
    );
  });

  it("may do nothing else", async () => {
    const as = `system:serviceaccount:${NAMESPACE}:switchback-dns`;
    for (const what of ["get secrets", "list pods", "create configmaps", "patch configmaps", "delete configmaps"]) {
      const { code } = await system.cluster.kubectl("auth", "can-i", ...what.split(" "), "-n", NAMESPACE, "--as", as);
      assert.equal(code, 1, what);
    }
  });

  it("has pods that the Pod Security level restricted admits", async () => {
    await system.kubectl("create", "namespace", "restricted");
    await system.kubectl("label", "namespace", "restricted", "pod-security.kubernetes.io/enforce=restricted");
    const { spec } = await system.json<Deployment>("-n", NAMESPACE, "get", "deployment", "switchback-dns-a");
    await until("the account", async () => {
      const { code } = await system.cluster.kubectl("-n", "restricted", "get", "serviceaccount", "default");
      return code === 0;
    });
    const pod = {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { namespace: "restricted", name: "resolver" },
      spec: { ...spec.template.spec, serviceAccountName: "default", serviceAccount: "default" },
    };
    const input = JSON.stringify(pod);
    const { code, stderr } = await system.cluster.tool("kubectl", ["create", "--dry-run=server", "-f", "-"], { input });
    assert.equal(code, 0, stderr);
  });

  it("leaves CoreDNS with the last map after a kill, and continues after a restart", async () => {
    await system.apply(ingress("kept", ["kept.example.com"]));
    await until("the name", async () => (await answers("kept.example.com")).length === 1);
    await sidecar.process.stop("SIGKILL");
    await system.apply(ingress("later", ["later.example.com"]));
    await until("the map has it", async () => (await system.publishedNames()).has("later.example.com"));
    assert.equal((await answers("kept.example.com")).length, 1);
    sidecar = await system.startDns(directory);
    await until("the later name", async () => (await answers("later.example.com")).length === 1);
    assert.equal((await answers("kept.example.com")).length, 1);
  });
});
