import assert from "node:assert/strict";
import { it } from "node:test";
import { captured } from "#test/fakes/cli.ts";
import { demo } from "./demo.ts";

it("the demo maps every name, and each answers through the relay only, in at most 30 lines", async () => {
  const { context, written } = captured();
  await demo(false, context);
  const lines = written.stdout.trimEnd().split("\n");
  assert.ok(lines.length <= 30, `${lines.length}`);
  assert.ok(
    lines.includes(
      "  shop/smoke-test                  pod          192.0.2.7 legacy.example.com, 127.0.0.1 api.example.com",
    ),
  );
  assert.ok(lines.includes("  shop/web-5c6b7                   -            -"));
  const answers = lines.filter((line) => line.includes("  200 "));
  assert.deepEqual(
    // The names come in the order in which their kinds were read.
    answers.map((line) => line.trim().split(/ {2,}/).slice(0, 3)).sort(),
    [
      ["cert-manager/cert-manager-7d9f8", "api.example.com", "closed without an answer"],
      ["cert-manager/cert-manager-7d9f8", "checkout.example.com", "closed without an answer"],
      ["cert-manager/cert-manager-7d9f8", "shop.example.com", "closed without an answer"],
      ["shop/smoke-test", "api.example.com", "closed without an answer"],
    ],
  );
  assert.match(lines.at(-3) ?? "", /^The ingress controller logs: broken header: "GET \/ HTTP\/1\.1" /);
  assert.match(lines.at(-1) ?? "", /^Next: `npx switchback doctor` /);
});
