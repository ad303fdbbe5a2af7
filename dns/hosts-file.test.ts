import assert from "node:assert/strict";
import { test } from "node:test";
import { DNS_HEALTH_NAME, revisionHealthName } from "../hostmap/dns-health-name.ts";
import { parseHosts } from "../hostmap/hosts-text.ts";
import { publishedMapOf } from "../snapshot/published-map.ts";
import { goodNames } from "../test/arbitraries.ts";
import { fc } from "../test/property.ts";
import { HostsFileRenderer } from "./hosts-file.ts";

const ROLLOUT = "4f2a";
const HEALTH = `127.0.0.1 ${DNS_HEALTH_NAME} ${revisionHealthName(ROLLOUT)}\n`;

test("names and wildcards of one label are lines; a wildcard at any depth is not", () => {
  const map = publishedMapOf(
    "r",
    new Map([
      ["shop.test", ["198.51.100.9", "2001:db8::9"]],
      ["*.wild.test", ["198.51.100.9"]],
      ["**.deep.test", ["198.51.100.9"]],
    ]),
  );
  const lines = "198.51.100.9 shop.test\n2001:db8::9 shop.test\n198.51.100.9 *.wild.test\n";
  assert.equal(new HostsFileRenderer(ROLLOUT).render(map), HEALTH + lines);
});

test("nobody can claim the health names", () => {
  const names = [DNS_HEALTH_NAME, revisionHealthName("next")];
  const map = publishedMapOf("r", new Map(names.map((name) => [name, ["127.0.0.1"]])));
  assert.equal(new HostsFileRenderer(ROLLOUT).render(map), HEALTH);
});

test("the file has the map's names, each with its addresses, and the health name", () => {
  const addresses = fc.constantFrom(["198.51.100.9"], ["198.51.100.9", "2001:db8::9"], ["2001:db8::1"]);
  fc.assert(
    fc.property(fc.array(fc.tuple(goodNames, addresses)), (entries) => {
      const names = new Map(entries);
      const read = parseHosts(new HostsFileRenderer(ROLLOUT).render(publishedMapOf("r", names)));
      assert.deepEqual(new Map([...read].filter(([name]) => !name.endsWith(DNS_HEALTH_NAME))), names);
      assert.deepEqual(read.get(DNS_HEALTH_NAME), ["127.0.0.1"]);
    }),
  );
});

test("a part that did not change is not rendered again", () => {
  let read = 0;
  const part = (name: string) => ({
    get entries() {
      read += 1;
      return new Map([[name, ["198.51.100.9"]]]);
    },
  });
  const [one, two, three] = [part("one.test"), part("two.test"), part("three.test")];
  const renderer = new HostsFileRenderer(ROLLOUT);
  renderer.render({ parts: [one, two] });
  assert.equal(read, 2);
  assert.match(renderer.render({ parts: [one, three] }), /one\.test\n.*three\.test\n$/);
  assert.equal(read, 3);
});
