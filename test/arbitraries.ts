import type { Claim } from "#hostmap/types.ts";
import { anyText, fc } from "./property.ts";

/** Names that a hosts file gets unchanged. */
export const goodNames = fc
  .array(fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?$/), { minLength: 1, maxLength: 4 })
  .map((labels) => `${labels.join(".")}.example.com`);

/** Hostnames that must never reach a hosts file, each for a different reason. */
export const HOSTILE_NAMES: readonly string[] = [
  "",
  " ",
  ".",
  "..",
  "a b.example.com",
  " a.example.com",
  "a.example.com ",
  "a.example.com\n198.51.100.66 bank.example.com",
  "a.example.com\r\n198.51.100.66 bank.example.com",
  "a.example.com\n",
  "\na.example.com",
  "a.example.com\t",
  "a\u0000.example.com",
  "a\u001b[31m.example.com",
  "a\u007f.example.com",
  "a\u0085.example.com",
  "a\u00a0.example.com",
  "a\u2028b.example.com",
  "#.example.com",
  "a.example.com#",
  "münchen.example.com",
  "аpple.example.com",
  "\u212aube.example.com",
  "a。example.com",
  "ａ.example.com",
  "\ud800.example.com",
  "a.example.com.",
  "a..example.com",
  ".a.example.com",
  "-a.example.com",
  "a-.example.com",
  "a_b.example.com",
  "a.example.com:443",
  "http://a.example.com",
  "a.example.com/path",
  "user@a.example.com",
  "localhost",
  "example",
  "127.0.0.1",
  "127.1",
  "0x7f.1",
  "0x7f000001",
  "0177.0.0.1",
  "2130706433",
  "1.2.3",
  "1.2.3.4.5",
  "a.example.0x",
  "a.example.0x7F",
  "a.example.9",
  "999.999.999.999",
  "::1",
  "[::1]",
  "fe80::1%eth0",
  "2001:db8::1",
  "*",
  "*.",
  "*.*.x",
  "*.*.example.com",
  "a.*.example.com",
  "*a.example.com",
  "a*.example.com",
  "*.com",
  "*.1.2.3.4",
  `${"a".repeat(64)}.example.com`,
  `${"a".repeat(1_000_000)}.example.com`,
  `${"a.".repeat(121)}example.com`.padStart(254, "b"),
  "__proto__",
];

/** Any text; the characters that matter occur often. */
export const anyNames = fc.oneof(
  fc.constantFrom(...HOSTILE_NAMES),
  anyText(300),
  fc.string({
    unit: fc.constantFrom("a", "B", "1", ".", "-", "*", " ", "\n", "#", ":", "x", "0", "é", "\u212a"),
    maxLength: 40,
  }),
  goodNames,
);

/** A claim of an object, `namespace/name`. */
export function claimOf(hostname: string, object: string, more: Partial<Omit<Claim, "from">> = {}): Claim {
  const [namespace = "", name = ""] = object.split("/");
  return {
    hostname,
    target: "ingress-nginx",
    created: "2026-01-01T00:00:00Z",
    from: { kind: "Ingress", namespace, name },
    ...more,
  };
}
