import assert from "node:assert/strict";
import { test } from "node:test";
import { type ClaimPaths, customReader } from "./claims.ts";
import { namesIn } from "./names.ts";
import { serviceClaims } from "./service-claims.ts";

const KIND: ClaimPaths = {
  hostnames: "$.hosts[*]",
  syntax: "name",
  classes: ["$.first[*]", "$.second"],
  className: "fallback",
  addresses: "$.addresses[*]",
  admitted: "$.ready[?@ == true]",
};

/** The hints of an object's only claim. */
function hintsOf(raw: object, kind: ClaimPaths = KIND) {
  const claims = customReader(kind)({ hosts: ["a.com"], ...raw }, "Widget");
  assert.equal(claims.length, 1);
  return claims[0]?.hints;
}

test("the class is the first non-empty text that any path selects, in the order of the paths", () => {
  const classOf = (raw: object) => {
    const hints = hintsOf(raw);
    return hints && "className" in hints ? hints.className : hints;
  };
  assert.equal(classOf({ first: ["a", "b"], second: "c" }), "a");
  assert.equal(classOf({ first: ["", 5, "b"], second: "c" }), "b");
  assert.equal(classOf({ first: [], second: "c" }), "c");
  assert.equal(classOf({ second: "" }), "fallback");
});

test("at most 16 addresses are read, and duplicates are removed", () => {
  const texts = (count: number) => Array.from({ length: count }, (_, index) => `n${index}`);
  const addressesOf = (list: readonly unknown[]) => {
    const hints = hintsOf({ addresses: list });
    return hints && "addresses" in hints ? hints.addresses : hints;
  };
  assert.deepEqual(addressesOf(texts(17)), texts(16));
  assert.deepEqual(addressesOf(["a", "b", "a", 5, ""]), ["a", "b"]);
});

test("an object is admitted once its path selects a value, or if there is no path", () => {
  const expected = (admitted: boolean) => ({ className: "fallback", addresses: [], admitted });
  assert.deepEqual(hintsOf({ ready: [true] }), expected(true));
  assert.deepEqual(hintsOf({ ready: [false] }), expected(false));
  assert.deepEqual(hintsOf({}, { ...KIND, admitted: undefined }), expected(true));
});

test("without a path for addresses there are no addresses, and without a class no class", () => {
  const { addresses: _, ...rest } = KIND;
  const kind = { ...rest, addresses: undefined, className: undefined, classes: [] };
  assert.deepEqual(hintsOf({ addresses: ["a"], ready: [true] }, kind), {
    className: undefined,
    addresses: [],
    admitted: true,
  });
});

test("an object is ignored only if the annotation's value is the text true", () => {
  const ignored = (value: unknown) => hintsOf({ metadata: { annotations: { "switchback.dev/ignore": value } } });
  assert.deepEqual(ignored("true"), { code: "ignored", text: 'the Widget carries switchback.dev/ignore: "true"' });
  for (const value of ["false", "", true]) assert.ok("addresses" in (ignored(value) ?? {}), String(value));
});

test("an object without metadata still has claims, with an empty name of the object", () => {
  const [claim] = customReader(KIND)({ hosts: ["a.com"] }, "Widget");
  const { from, created } = claim ?? {};
  assert.deepEqual([from, created], [{ kind: "Widget", namespace: "", name: "" }, ""]);
});

test("a value with another syntax is reported in addition to the readable names", () => {
  const claims = customReader(KIND)({ hosts: ["a.com", 5, null, "b.com"] }, "Widget");
  const text = '$.hosts[*] selects "5", which does not have the syntax name';
  assert.deepEqual(
    claims.map(({ hostname, hints }) => [hostname, "code" in hints ? hints : "hints"]),
    [
      ["a.com", "hints"],
      ["unreadable.invalid", { code: "path-failed", text }],
      ["b.com", "hints"],
    ],
  );
});

test("namesIn reads names from a text by its syntax", () => {
  assert.deepEqual(namesIn("a.com, b.com", "name"), ["a.com, b.com"]);
  assert.deepEqual(namesIn(" a.com ,b.com. ,, * ,.,c.com..", "list"), ["a.com", "b.com", "c.com."]);
  assert.deepEqual(namesIn("Host(`a.com`) || HostHeader(`b.com.`)", "traefik-rule"), ["a.com", "b.com"]);
  assert.deepEqual(
    ["ns/a.com", "a.com", "./a.com", "a/b/c", "ns/", "*/*", "*"].map((text) => namesIn(text, "istio-host")),
    [["a.com"], ["a.com"], ["a.com"], ["b/c"], [], [], []],
  );
});

const HOSTNAME = "external-dns.alpha.kubernetes.io/hostname";
const service = (more: object = {}, annotations: object = {}) => ({
  metadata: {
    namespace: "shop",
    name: "web",
    creationTimestamp: "t",
    annotations: { [HOSTNAME]: "a.com", ...annotations },
  },
  spec: { type: "LoadBalancer" },
  status: {
    loadBalancer: { ingress: [{ hostname: "lb.com", ip: "192.0.2.1" }, { ip: "" }, { ip: 5, hostname: "b" }] },
  },
  ...more,
});

test("all fields of a Service's claim; each status entry adds its address before its host name", () => {
  assert.deepEqual(serviceClaims(service()), [
    {
      hostname: "a.com",
      from: { kind: "Service", namespace: "shop", name: "web" },
      created: "t",
      hints: {
        className: undefined,
        addresses: ["192.0.2.1", "lb.com", "b"],
        admitted: true,
        service: { namespace: "shop", name: "web" },
      },
    },
  ]);
});

test("a Service may have its names in either or both annotations of external-dns", () => {
  const namesOf = (annotations: object) =>
    serviceClaims({ metadata: { annotations }, spec: { type: "LoadBalancer" } }).map(({ hostname }) => hostname);
  const now = "external-dns.kubernetes.io/hostname";
  assert.deepEqual(namesOf({ [now]: "a.com., b.com" }), ["a.com", "b.com"]);
  assert.deepEqual(namesOf({ [HOSTNAME]: "b.com,c.com", [now]: "a.com,b.com" }), ["a.com", "b.com", "c.com"]);
  assert.deepEqual(namesOf({ [`x${now}`]: "a.com" }), []);
});

test("if other prefixes are configured, only their annotations are read", () => {
  const annotations = { [HOSTNAME]: "a.com", "internal.example.com/hostname": "b.com" };
  const service = { metadata: { annotations }, spec: { type: "LoadBalancer" } };
  const claims = serviceClaims(service, ["internal.example.com/"]);
  assert.deepEqual(
    claims.map(({ hostname }) => hostname),
    ["b.com"],
  );
});

test("each reason to refuse the names of a Service", () => {
  const reason = (raw: object) => serviceClaims(raw as never).map(({ hints }) => hints);
  assert.deepEqual(reason(service({ spec: {} })), [
    { code: "not-short-circuited", text: "the Service is not of type LoadBalancer: pods reach its address directly" },
  ]);
  assert.deepEqual(reason(service({}, { "switchback.dev/ignore": "true" })), [
    { code: "ignored", text: 'the Service carries switchback.dev/ignore: "true"' },
  ]);
  assert.ok("addresses" in (reason(service({}, { "switchback.dev/ignore": "no" }))[0] ?? {}));
  assert.deepEqual(reason({ metadata: { annotations: { [HOSTNAME]: "" } } }), []);
  const bare = serviceClaims({ metadata: { annotations: { [HOSTNAME]: "a.com" } } });
  assert.deepEqual([bare[0]?.from, bare[0]?.created], [{ kind: "Service", namespace: "", name: "" }, ""]);
});
