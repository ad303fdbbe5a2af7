import assert from "node:assert/strict";
import { test } from "node:test";
import { partsOf, workloadKey } from "./workload-keys.ts";

const KEY = "shop/Deployment/web";
const WEB = { namespace: "shop", kind: "Deployment", name: "web" };

test("a key and its parts; a missing part is empty", () => {
  assert.deepEqual(partsOf(KEY), WEB);
  assert.deepEqual(partsOf(""), { namespace: "", kind: "", name: "" });
  assert.equal(workloadKey(WEB), KEY);
});
