import assert from "node:assert/strict";
import { test } from "node:test";
import { ON_CHANGE_KEY, USER_KEYS } from "./metadata-keys.ts";
import { effectiveOnChange, ON_CHANGE_VALUES } from "./on-change.ts";

const NOTHING = { pod: undefined, workload: undefined, namespace: undefined, fallback: "restart" } as const;

test("without any value, the install's default applies", () => {
  assert.deepEqual(effectiveOnChange({ ...NOTHING, fallback: "none" }), {
    mode: "none",
    from: "install",
    problems: [],
  });
});

test("the most specific value wins", () => {
  const all = { pod: "none", workload: "live", namespace: "restart", fallback: "restart" } as const;
  assert.deepEqual(effectiveOnChange(all), { mode: "none", from: "pod", problems: [] });
  assert.deepEqual(effectiveOnChange({ ...all, pod: undefined }), { mode: "live", from: "workload", problems: [] });
  const namespace = effectiveOnChange({ ...all, pod: undefined, workload: undefined });
  assert.deepEqual(namespace, { mode: "restart", from: "namespace", problems: [] });
});

test("an invalid value is ignored, and the reason names the level and the accepted values", () => {
  const { mode, from, problems } = effectiveOnChange({ ...NOTHING, pod: "Live\u001b[31m", namespace: "live" });
  assert.deepEqual([mode, from], ["live", "namespace"]);
  assert.deepEqual(problems, [
    {
      code: "on-change-invalid",
      text: `the pod's ${ON_CHANGE_KEY} is "Live\\u001b[31m"; accepted are restart, live, none; it is ignored`,
    },
  ]);
});

test("an empty value counts as a value", () => {
  assert.equal(effectiveOnChange({ ...NOTHING, workload: "" }).problems.length, 1);
});

test("the modes are those in the table of keys", () => {
  assert.deepEqual(USER_KEYS[ON_CHANGE_KEY]?.values, ON_CHANGE_VALUES);
});
