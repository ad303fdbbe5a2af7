import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { MAIN, useFiles } from "#test/fakes/cli.ts";
import { fullStatus } from "#test/fakes/full-status.ts";
import { type FakeApi, fakeApi, json, refuse } from "#test/fakes/kube-api.ts";
import { bareEnvironment } from "#test/processes.ts";
import type { FeedMessage } from "./messages.ts";

const files = useFiles();
let api: FakeApi;
let mayRead = true;
const status = fullStatus();
before(async () => {
  const key = { data: { key: Buffer.from("k".repeat(40)).toString("base64") } };
  api = await fakeApi((call) => {
    if (!mayRead) return refuse(403, "Forbidden")(call);
    return json(call.path.includes("/secrets/") ? key : status)(call);
  });
});
after(() => api.close());

interface Started {
  readonly child: ChildProcess;
  readonly address: string;
}

/** Starts a command, and waits until it has printed the page's address. */
async function start(...args: string[]): Promise<Started> {
  const child = spawn(process.execPath, [MAIN, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    env: bareEnvironment(),
  });
  const lines = createInterface({ input: child.stdout });
  const ended = once(child, "exit").then(([code]) => assert.fail(`ended with ${code}`));
  const printed = (async () => {
    for await (const line of lines) {
      const [address] = /http:\S+$/.exec(line.includes("/127.0.0.1:") ? line : "") ?? [];
      if (address?.endsWith("/")) return address;
    }
    return assert.fail("no address");
  })();
  ended.catch(() => {});
  return { child, address: await Promise.race([printed, ended]) };
}

async function startDashboard(): Promise<Started> {
  return await start("dashboard", "--no-open", "-n", "ours", "--kubeconfig", await files.kubeconfig(api.url));
}

/** The messages up to the first one of these types. */
async function eventsUntil(address: string, ...types: FeedMessage["type"][]): Promise<FeedMessage[]> {
  const response = await fetch(new URL("events", address));
  let text = "";
  for await (const chunk of response.body ?? []) {
    text += Buffer.from(chunk).toString();
    const whole = text.slice(0, text.lastIndexOf("\n\n"));
    const messages = whole.split("\n\n").filter((event) => event.startsWith("data: "));
    const parsed = messages.map((event): FeedMessage => JSON.parse(event.slice("data: ".length)));
    if (parsed.some(({ type }) => types.includes(type))) return parsed;
  }
  return [];
}

test("prints an address that serves the page and the cluster's status until it is interrupted", async () => {
  mayRead = true;
  const { child, address } = await startDashboard();
  try {
    assert.match(await (await fetch(address)).text(), /<title>Switchback<\/title>/);
    const messages = await eventsUntil(address, "summary");
    assert.deepEqual(messages[0], { type: "begin", place: `x (${api.url.origin}/)`, canExamine: true });
    const names = messages.flatMap((message) => (message.type === "names" ? (message.set ?? []) : []));
    assert.deepEqual(
      names.map(([, name]) => name),
      JSON.parse(JSON.stringify(status.names)),
    );
    assert.ok(api.calls.every(({ method }) => method === "GET"));
  } finally {
    child.kill("SIGINT");
  }
  assert.deepEqual(await once(child, "exit"), [0, null]);
});

test("without the right to read the status, the page says which Role has the right", async () => {
  mayRead = false;
  const { child, address } = await startDashboard();
  try {
    const last = (await eventsUntil(address, "unknown")).at(-1);
    assert.match(
      last?.type === "unknown" ? last.text : "",
      /Forbidden.*the ClusterRole switchback-reader has the right/,
    );
  } finally {
    child.kill("SIGTERM");
  }
  assert.deepEqual(await once(child, "exit"), [0, null]);
});

test("the demo serves a page with a running example, without a cluster", async () => {
  const { child, address } = await start("demo", "--dashboard");
  try {
    const messages = await eventsUntil(address, "summary");
    assert.deepEqual(messages[0], { type: "begin", place: "the demo on this machine", canExamine: false });
    const names = messages.flatMap((message) => (message.type === "names" ? (message.set ?? []) : []));
    assert.ok(names.some(([, { name, target }]) => name === "shop.example.com" && target === "ingress-nginx"));
    const measured = (await eventsUntil(address, "traffic")).at(-1);
    assert.ok(measured?.type === "traffic" && measured.measured.known);
    assert.ok(
      measured.measured.value.upstreams.some(({ good }) => good === 1),
      JSON.stringify(measured),
    );
  } finally {
    child.kill("SIGINT");
  }
  assert.deepEqual(await once(child, "exit"), [0, null]);
});
