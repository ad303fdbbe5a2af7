import assert from "node:assert/strict";
import { test } from "node:test";
import { hasCode } from "#lib/errors/errors.ts";
import { crc32c } from "./crc32c.ts";
import { type Endpoints, encodeHeader, V1_MAX_BYTES } from "./proxy-header.ts";

function ends(from: string, to: string, ports: [number, number] = [41234, 443]): Endpoints {
  return { source: { address: from, port: ports[0] }, destination: { address: to, port: ports[1] } };
}

const v1Cases: [string, Endpoints, string][] = [
  ["IPv4", ends("192.0.2.7", "198.51.100.9"), "PROXY TCP4 192.0.2.7 198.51.100.9 41234 443\r\n"],
  ["IPv6", ends("2001:db8::7", "2001:db8::9"), "PROXY TCP6 2001:db8::7 2001:db8::9 41234 443\r\n"],
  ["v4-mapped", ends("::ffff:192.0.2.7", "::ffff:198.51.100.9"), "PROXY TCP4 192.0.2.7 198.51.100.9 41234 443\r\n"],
  ["a zone", ends("fe80::1%eth0", "fe80::2"), "PROXY TCP6 fe80::1 fe80::2 41234 443\r\n"],
  ["mixed", ends("192.0.2.7", "2001:db8::9"), "PROXY TCP6 ::ffff:c000:207 2001:db8::9 41234 443\r\n"],
  [
    "the extremes of a port",
    ends("0.0.0.0", "255.255.255.255", [0, 65535]),
    "PROXY TCP4 0.0.0.0 255.255.255.255 0 65535\r\n",
  ],
];

for (const [title, endpoints, expected] of v1Cases) {
  test(`v1, ${title}: ${JSON.stringify(expected)}`, () => {
    assert.equal(encodeHeader("v1", endpoints).toString("latin1"), expected);
  });
}

test("the longest v1 line fits its 107 bytes", () => {
  const widest = "fedc:ba98:7654:3210:fedc:ba98:7654:3210";
  const line = encodeHeader("v1", ends(widest, widest, [65535, 65535]));
  assert.equal(line.length, 104);
  assert.ok(line.length <= V1_MAX_BYTES);
});

test("v2 over IPv4, byte for byte", () => {
  assert.equal(
    encodeHeader("v2", ends("192.0.2.7", "198.51.100.9")).toString("hex"),
    ["0d0a0d0a000d0a515549540a", "21", "11", "000c", "c0000207", "c6336409", "a112", "01bb"].join(""),
  );
});

test("v2 over IPv6, and with one end IPv4, byte for byte", () => {
  const head = ["0d0a0d0a000d0a515549540a", "21", "21", "0024"];
  const [seven, nine] = ["20010db8000000000000000000000007", "20010db8000000000000000000000009"];
  assert.equal(
    encodeHeader("v2", ends("2001:db8::7", "2001:db8::9")).toString("hex"),
    [...head, seven, nine, "a112", "01bb"].join(""),
  );
  assert.equal(
    encodeHeader("v2", ends("192.0.2.7", "2001:db8::9")).toString("hex"),
    [...head, "00000000000000000000ffffc0000207", nine, "a112", "01bb"].join(""),
  );
});

test("v2 with a unique id and a checksum over the header with the field at zero", () => {
  const header = encodeHeader("v2", ends("192.0.2.7", "198.51.100.9"), { crc32c: true, uniqueId: Buffer.from("id-1") });
  assert.equal(header.readUInt16BE(14), 12 + 7 + 7);
  assert.equal(header.toString("hex", 28, 35), "05000469642d31");
  assert.equal(header.toString("hex", 35, 38), "030004");
  const zeroed = Buffer.from(header);
  zeroed.fill(0, 38);
  assert.equal(header.readUInt32BE(38), crc32c(zeroed));
  assert.notEqual(header.readUInt32BE(38), 0);
});

const refused: [string, () => Buffer][] = [
  ["a host name", () => encodeHeader("v1", ends("localhost", "192.0.2.7"))],
  ["an address with a line break", () => encodeHeader("v1", ends("192.0.2.7\r\nPROXY", "192.0.2.7"))],
  ["an empty address", () => encodeHeader("v2", ends("192.0.2.7", ""))],
  ["port 65536", () => encodeHeader("v1", ends("192.0.2.7", "192.0.2.8", [65536, 1]))],
  ["port -1", () => encodeHeader("v2", ends("192.0.2.7", "192.0.2.8", [1, -1]))],
  ["port NaN", () => encodeHeader("v1", ends("192.0.2.7", "192.0.2.8", [1, Number.NaN]))],
  [
    "129 bytes of unique id",
    () => encodeHeader("v2", ends("192.0.2.7", "192.0.2.8"), { uniqueId: new Uint8Array(129) }),
  ],
];

for (const [title, encode] of refused) {
  test(`${title} is refused`, () => assert.throws(encode, (error) => hasCode(error, "input-invalid")));
}
