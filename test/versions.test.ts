import assert from "node:assert/strict";
import { test } from "node:test";
import { sourceOf } from "./cluster/modules.ts";
import { chooseVersions } from "./versions.ts";

const versionOf = (name: "kube-apiserver" | "kubectl" | "helm") => sourceOf(name).version;

test("an unknown version is refused, the message lists the known ones, and nothing is chosen", () => {
  process.env.KUBEBUILDER_ASSETS = "/assets";
  const usual = versionOf("kube-apiserver");
  assert.match(
    chooseVersions({ kubernetes: "1.20" }) ?? "",
    /^--kubernetes 1\.20: unknown version; known: 1\.30, .*1\.36, 1\.37$/,
  );
  assert.match(chooseVersions({ helm: "2" }) ?? "", /^--helm 2: unknown version; known: 3, 4$/);
  assert.equal(chooseVersions({}), undefined);
  assert.deepEqual([versionOf("kube-apiserver"), process.env.KUBEBUILDER_ASSETS], [usual, "/assets"]);
});

test("a chosen version applies to this process and to those it starts; assets of another version are left out", () => {
  const usual = versionOf("kubectl");
  assert.equal(chooseVersions({ kubernetes: usual.slice(1, 5) }), undefined);
  assert.equal(versionOf("kube-apiserver"), usual);
  assert.equal(chooseVersions({ kubernetes: "1.30", helm: "3" }), undefined);
  assert.deepEqual([versionOf("kube-apiserver"), versionOf("kubectl")], ["v1.30.14", usual]);
  assert.match(versionOf("helm"), /^v3\./);
  assert.equal(process.env.KUBEBUILDER_ASSETS, undefined);
});
