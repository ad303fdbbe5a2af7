import assert from "node:assert/strict";
import { test } from "node:test";
import type { AddressTable } from "./address-table.ts";
import { BorrowedPorts } from "./borrowed-ports.ts";
import type { ServiceView } from "./service-view.ts";

const VIEW = { ports: [{ port: 80 }] } as unknown as ServiceView;

test("a port is new only if the Service lacks it and no object wanted it before", () => {
  const borrowed = new BorrowedPorts({} as AddressTable);
  assert.equal(borrowed.want("t", VIEW, [80]), false, "the Service has it");
  assert.equal(borrowed.want("t", VIEW, [80, 443]), true);
  assert.equal(borrowed.want("t", VIEW, [443]), false, "another object wants it");
  borrowed.reset();
  assert.equal(borrowed.want("t", VIEW, [443]), false, "an object wanted it before");
  assert.equal(borrowed.want("t", VIEW, [8443]), true);
});
