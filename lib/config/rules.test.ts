import assert from "node:assert/strict";
import { test } from "node:test";
import { checkConfig, parseConfig } from "./parse.ts";

const target = (name: string, more: object = {}) => ({ name, upstream: { host: "h" }, classes: [name], ...more });
const accepted = (...targets: object[]) => checkConfig({ targets }).config !== undefined;

test("a target's name fits into the name of a Service that is not one of Switchback's own", () => {
  assert.deepEqual([accepted(target("a".repeat(52))), accepted(target("a".repeat(53)))], [true, false]);
  for (const name of ["controller", "webhook", "proxy", "agent", "dns-a", "dns-b"])
    assert.equal(accepted(target(name)), false, name);
});

test("an upstream is an address or a name, without a port or a path", () => {
  for (const [host, good] of [
    ["192.0.2.1", true],
    ["2001:db8::1", true],
    ["lb.example.com.", true],
    ["my_lb", true],
    ["", false],
    ["a/b", false],
    ["a:1", false],
  ] as const) {
    assert.equal(accepted(target("a", { upstream: { host } })), good, host);
  }
});

test("a target needs an address if all its ports go to a host without a header, and only then", () => {
  const none = { protocol: "none" };
  const of = (more: object) => accepted(target("a", more));
  assert.equal(of({ ports: [{ port: 80, ...none }] }), false);
  assert.equal(of({ ports: [{ port: 80, ...none }, { port: 443 }] }), true);
  assert.equal(of({ ports: [{ port: 80, ...none }], clusterIPs: ["10.0.0.1"] }), true);
  assert.equal(of({ ports: [{ port: 80, ...none }], upstream: { service: { namespace: "a", name: "b" } } }), true);
});

test("the files of a certificate are required where they are read", () => {
  const valid = (config: object) => checkConfig(config).config !== undefined;
  const files = { mode: "files", certFile: "a", keyFile: "b" };
  const certs = (more: object) => valid({ certs: { ...files, ...more } });
  assert.deepEqual([certs({}), certs({ keyFile: undefined }), certs({ certFile: undefined })], [true, false, false]);
  assert.equal(certs({ mode: "cert-manager", keyFile: undefined, certFile: undefined }), true);
});

test("a namespace that the webhook excludes cannot opt in by name, and the error says which can", () => {
  const config = { namespace: "own", pods: { excludedNamespaces: ["kube-system"] } };
  const flaws = (...namespaces: string[]) =>
    checkConfig({ ...config, optIn: { namespaces } }).flaws.map(({ path, message }) => [path, message]);
  assert.deepEqual(flaws("cert-manager", "kube-public"), []);
  const others = "are never sent to the webhook; expected a namespace other than kube-system, own";
  assert.deepEqual(flaws("cert-manager", "kube-system", "own"), [
    [["optIn", "namespaces", 1], `pods of kube-system ${others}`],
    [["optIn", "namespaces", 2], `pods of own ${others}`],
  ]);
});

test("five sources cannot fill a proxy", () => {
  const { proxy } = parseConfig({});
  assert.ok(proxy.maxConnectionsPerSource * 5 < proxy.maxConnections);
});
