import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { Cluster } from "../cluster/cluster.ts";
import { testFiles } from "../files.ts";
import { existing } from "./cluster-target.ts";
import { examine, isListed, missingFor } from "./other-cluster.ts";

const FOLDER = import.meta.dirname;
const FILES = testFiles("e2e");
const VERSIONS = "apps/v1\nv1\n";

/** A cluster that serves these API versions and has these objects. */
function cluster(versions: string, ...objects: string[]): Cluster {
  const tool = async (_: string, args: string[]) => {
    if (args[0] === "api-versions") return { code: versions === "" ? 1 : 0, stdout: versions, stderr: "a\nno route\n" };
    return { code: 0, stdout: objects.find((object) => object === args[1]) ?? "", stderr: "" };
  };
  return new Cluster({ tool, program: () => Promise.reject(new Error("not here")) });
}

test("every file is listed as able or unable to run on a user's cluster", () => {
  assert.ok(FILES.length > 10);
  const unlisted = FILES.filter((file) => !isListed(file));
  assert.deepEqual(unlisted, []);
});

test("a file that cannot run names what is missing, in one line", () => {
  const missing = FILES.map((file) => missingFor(file, new Set()));
  assert.ok(missing.filter((reason) => reason === undefined).length >= 6);
  for (const reason of missing) assert.match(reason ?? "needs nothing", /^(needs |the cluster has no )[^\n]+$/);
  assert.equal(missingFor("80-cert-mode.test.ts", new Set()), "the cluster has no cert-manager");
});

test("the add-ons of a cluster are detected", async () => {
  assert.deepEqual([...(await examine(cluster(VERSIONS)))], []);
  const present = await examine(cluster(`cert-manager.io/v1\n${VERSIONS}`));
  assert.equal(missingFor("80-cert-mode.test.ts", present), undefined);
});

test("a cluster that does not answer, or has objects that the tests would make, is refused in one line", async () => {
  await assert.rejects(examine(cluster("")), {
    name: "NotHere",
    message: /^E2E_KUBECONFIG: [^\n]* does not answer: no route$/,
  });
  for (const object of ["namespace/shop", "mutatingwebhookconfiguration/switchback-webhook"]) {
    await assert.rejects(examine(cluster(VERSIONS, object)), {
      name: "NotHere",
      message: new RegExp(`a ${object} alr`),
    });
  }
});

test("E2E_KUBECONFIG and E2E_IMAGE are checked", () => {
  const here = import.meta.filename;
  assert.equal(existing({}), undefined);
  assert.throws(() => existing({ E2E_KUBECONFIG: "/nonexistent" }), /^NotHere: E2E_KUBECONFIG: .* \/nonexistent$/);
  for (const E2E_IMAGE of ["", "switchback", "registry.example.com:5000/switchback"]) {
    assert.throws(() => existing({ E2E_KUBECONFIG: here, E2E_IMAGE }), /^NotHere: E2E_IMAGE: [^\n]+$/);
  }
  const image = existing({ E2E_KUBECONFIG: here, E2E_IMAGE: "registry.example.com:5000/switchback:1.2" })?.image;
  assert.deepEqual([image?.repository, image?.tag], ["registry.example.com:5000/switchback", "1.2"]);
});

for (const [what, args, message] of [
  ["an option that there is not", ["--kep"], /^usage: npm run e2e [^\n]+\n$/],
  ["a fault that cannot be planted", ["--break", "everything"], /^usage: npm run e2e [^\n]+\n$/],
  ["a filter that matches nothing", ["nothing-of-this-name"], /^no end-to-end test has nothing-of-this-name [^\n]+\n$/],
] as const) {
  test(`the command refuses ${what}, in one line`, () => {
    // If the command accepted the arguments by mistake, this kubeconfig would keep it from starting a cluster.
    const options = { encoding: "utf8", env: { ...process.env, E2E_KUBECONFIG: "/nonexistent" } } as const;
    const { status, stderr } = spawnSync(process.execPath, [join(FOLDER, "run.ts"), ...args], options);
    assert.match(stderr, message);
    assert.equal(status, 1);
  });
}

test("the command refuses --all on a user's cluster, in one line", () => {
  const env = { ...process.env, E2E_KUBECONFIG: import.meta.filename, E2E_IMAGE: "switchback:1" };
  const { status, stderr } = spawnSync(process.execPath, [join(FOLDER, "run.ts"), "--all"], { encoding: "utf8", env });
  assert.match(stderr, /^--all: runs only on this machine's own node[^\n]+\n$/);
  assert.equal(status, 1);
});
