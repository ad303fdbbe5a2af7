import assert from "node:assert/strict";
import { after, test } from "node:test";
import {
  type DnsAnswers,
  ipv4,
  NO_ERROR,
  NO_NAME,
  SERVER_FAILURE,
  startDnsServer,
  TYPE_A,
  TYPE_AAAA,
} from "#test/fakes/dns-server.ts";
import { DNS_HEALTH_NAME } from "../health-name.ts";
import { resolverQueries } from "./resolver-queries.ts";

const stops: Array<() => void> = [];
after(() => {
  for (const stop of stops) stop();
});

async function serve(answers: DnsAnswers, asked: string[] = []): Promise<string> {
  const server = await startDnsServer((name, type) => {
    asked.push(`${name} ${type}`);
    return answers(name, type);
  });
  stops.push(server.close);
  return server.address;
}

test("a resolver counts as answering if it has 127.0.0.1 for the health name, and is asked each time", async () => {
  let answer: Buffer | number = ipv4("127.0.0.1");
  const asked: string[] = [];
  const address = await serve(() => answer, asked);
  const { isAnswering } = resolverQueries([]);
  assert.equal(await isAnswering(address), true);
  for (const other of [ipv4("198.51.100.9"), NO_NAME, SERVER_FAILURE]) {
    answer = other;
    assert.equal(await isAnswering(address), false, "not from a cache");
  }
  assert.ok(asked.length >= 4 && asked.every((question) => question === `${DNS_HEALTH_NAME} ${TYPE_A}`));
});

test("a silent resolver or an invalid address counts as not answering", async () => {
  const { isAnswering } = resolverQueries([]);
  assert.equal(await isAnswering(await serve(() => undefined)), false);
  assert.equal(await isAnswering("not an address"), false);
});

test("a Service's address has the cluster's first family, else the other one", async () => {
  const both = await serve((_, type) => (type === TYPE_A ? ipv4("10.96.0.11") : undefined));
  assert.equal(await resolverQueries([both]).addressOf("a.ns.svc.cluster.local"), "10.96.0.11");
  const v6 = Buffer.from("fd000000000000000000000000000011", "hex");
  const six = await serve((_, type) => (type === TYPE_AAAA ? v6 : NO_ERROR));
  assert.equal(await resolverQueries([six]).addressOf("a.ns.svc.cluster.local"), "fd00::11");
});

test("a Service that does not exist has no address; a failing DNS server is an error", async () => {
  const none = await serve(() => NO_NAME);
  assert.equal(await resolverQueries([none]).addressOf("a.ns.svc.cluster.local"), undefined);
  const broken = await serve(() => SERVER_FAILURE);
  await assert.rejects(resolverQueries([broken]).addressOf("a.ns.svc.cluster.local"));
});
