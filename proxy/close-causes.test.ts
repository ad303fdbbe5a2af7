import assert from "node:assert/strict";
import { test } from "node:test";
import { connectCause, lookupCause } from "./close-causes.ts";

for (const [errno, expected] of [
  ["ECONNREFUSED", "connection-refused"],
  ["ECONNRESET", "connection-refused"],
  ["ETIMEDOUT", "timeout"],
  ["EHOSTUNREACH", "unreachable"],
  ["ENETUNREACH", "unreachable"],
  ["EADDRNOTAVAIL", "unreachable"],
  ["EACCES", "unreachable"],
  [undefined, "unreachable"],
  ["EMFILE", "local-limit"],
  ["ENFILE", "local-limit"],
  ["ENOBUFS", "local-limit"],
  ["ENOMEM", "local-limit"],
] as const) {
  test(`connect's ${errno} is ${expected}`, () => assert.equal(connectCause(errno), expected));
}

for (const [code, expected] of [
  ["ENOTFOUND", "dns-nxdomain"],
  ["ENODATA", "dns-nxdomain"],
  ["EAI_AGAIN", "dns-timeout"],
  ["EMFILE", "dns-timeout"],
  [undefined, "dns-timeout"],
] as const) {
  test(`getaddrinfo's ${code} is ${expected}`, () => assert.equal(lookupCause(code), expected));
}
