import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "#test/property.ts";
import { addressBytes, addressText, endpointText, mappedBytes, normalAddress } from "./address.ts";

const normalCases: [string, string][] = [
  ["::ffff:192.0.2.7", "192.0.2.7"],
  ["::FFFF:192.0.2.7", "192.0.2.7"],
  ["::ffff:c000:207", "192.0.2.7"],
  ["0:0:0:0:0:ffff:c000:0207", "192.0.2.7"],
  ["192.0.2.7", "192.0.2.7"],
  ["2001:DB8:0:0:1:0:0:1", "2001:db8::1:0:0:1"],
  ["fe80::1%eth0", "fe80::1"],
  ["::", "::"],
  ["::1", "::1"],
  ["1::", "1::"],
  ["1:2:3:4:5:6:0:8", "1:2:3:4:5:6:0:8"],
  ["1:0:0:4:5:6:0:0", "1::4:5:6:0:0"],
  ["::192.0.2.7", "::c000:207"],
  ["not an address", "not an address"],
];

for (const [text, expected] of normalCases) {
  test(`normalAddress turns ${text} into ${expected}`, () => assert.equal(normalAddress(text), expected));
}

test("text that is not an address has no bytes", () => {
  for (const text of ["", "1.2.3", "01.2.3.4", "::ffff:1.2.3", "1:2:3", "localhost", "1.2.3.4 "]) {
    assert.equal(addressBytes(text), undefined, text);
  }
});

test("16 bytes that are written as text are read back unchanged", () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 16, maxLength: 16 }), fc.nat(15), fc.nat(16), (bytes, from, count) => {
      bytes.fill(0, from, from + count);
      const read = addressBytes(addressText(bytes));
      assert.ok(read !== undefined);
      assert.deepEqual(mappedBytes(read), bytes);
    }),
  );
});

test("addressBytes and the URL parser agree on random IPv6 literals", () => {
  fc.assert(
    fc.property(fc.ipV6(), (text) => {
      const viaUrl = new URL(`http://[${text}]/`).hostname.slice(1, -1);
      assert.deepEqual(addressBytes(text), addressBytes(viaUrl));
    }),
  );
});

test("endpointText puts an IPv6 address in brackets", () => {
  assert.deepEqual(
    [endpointText("10.0.0.1", 80), endpointText("2001:db8::1", 80)],
    ["10.0.0.1:80", "[2001:db8::1]:80"],
  );
});
