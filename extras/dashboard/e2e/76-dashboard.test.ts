import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import { userCache } from "#test/cluster/binaries.ts";
import type { Cluster } from "#test/cluster/cluster.ts";
import { toolEnv } from "#test/cluster/node/kubectl.ts";
import { inNamespace } from "#test/cluster/node/run.ts";
import { SWITCHBACK } from "#test/cluster/tools.ts";
import { withCluster } from "#test/cluster/whole.ts";
import { getMapped, OPTED_IN, optIn } from "#test/e2e/opted-in.ts";
import { ingress, NAME, openShop } from "#test/e2e/shop.ts";
import { installSwitchback, leaderStatus, publishedMap, SYSTEM } from "#test/e2e/switchback.ts";
import { startChromium } from "#test/integration/browser/chromium.ts";

// The dashboard of a real cluster in a real browser: while all is well, while something breaks, and while it heals.

export const needs = ["node"];

const SCREENSHOTS = userCache("screenshots");
const BREAKING = "breaking.example.com";
/**
 * The dashboard reads components and metrics every few seconds, but only once a minute on a slow machine. Pods need
 * additional time.
 */
const WAIT_SECONDS = 180;

let cluster: Cluster;
let browser: Browser;
let page: Page;
let command: ChildProcess;
let address: string;

before(async () => {
  mkdirSync(SCREENSHOTS, { recursive: true });
  cluster = await withCluster();
  await openShop(cluster);
  await installSwitchback(cluster);
  await optIn(cluster);
  // Both run in the network namespace of the node. The API server has no address elsewhere, and each namespace has
  // its own loopback.
  const args = [SWITCHBACK, "dashboard", "--no-open", "--namespace", SYSTEM];
  const [program, all] = inNamespace("node", process.execPath, args);
  command = spawn(program, all, {
    env: { PATH: process.env.PATH, ...toolEnv() },
    stdio: ["ignore", "pipe", "inherit"],
  });
  assert.ok(command.stdout);
  const ended = once(command, "exit").then(([code]) => assert.fail(`switchback dashboard ended with ${code}`));
  ended.catch(() => {});
  [address] = (await Promise.race([once(createInterface({ input: command.stdout }), "line"), ended])) as [string];
  const [enter, before] = inNamespace("node", "", []);
  browser = await startChromium([enter, ...before.filter((word) => word !== "")]);
  page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  page.setDefaultTimeout(WAIT_SECONDS * 1_000);
});

after(async () => {
  await browser?.close();
  command?.kill("SIGINT");
  await cluster.delete(ingress("breaking", BREAKING, "nginx"));
  await cluster.kubectl("-n", SYSTEM, "scale", "deployment/switchback-proxy", "--replicas=2");
  await cluster.rolledOut(SYSTEM, "deployment/switchback-proxy");
  // A released name stays a minute. Later tests compare revisions, so the map must not change under them.
  await cluster.until("the name has left the map", WAIT_SECONDS, async () => {
    return !(await publishedMap(cluster)).includes(BREAKING) || undefined;
  });
});

async function look(view: string): Promise<void> {
  await page.goto(`${address}#/${view}`);
  await page.getByText(/^live, /).waitFor();
}

async function keep(name: string): Promise<void> {
  await page.screenshot({ path: join(SCREENSHOTS, `cluster-${name}.png`), fullPage: true });
}

const way = () => page.getByRole("region", { name: "Way of the name" });

test("the page's figures are those of switchback status -o json", async () => {
  await look("now");
  await cluster.until("the same figures", WAIT_SECONDS, async () => {
    const { names, running } = await leaderStatus(cluster);
    const figures = {
      Names: names.length,
      Refused: names.filter(({ reason }) => reason !== undefined).length,
      Workloads: running?.counts.workloads,
      "Stale pods": running?.counts.stale,
    };
    const shown = await Promise.all(
      Object.keys(figures).map((title) => page.locator(".tiles li", { hasText: title }).locator("b").innerText()),
    );
    return shown.join() === Object.values(figures).join() || undefined;
  });
  await keep("now");
});

test("the whole way of a reachable name works, and its connections are drawn", async () => {
  assert.equal((await getMapped(cluster, `http://${NAME}/`)).status, 200);
  await look(`names?name=${NAME}`);
  for (const index of [0, 1, 2, 3, 4]) await way().getByRole("listitem").nth(index).getByText("works").waitFor();
  await keep("way");
  await look("traffic");
  const accepted = page.getByRole("region", { name: "New connections" }).getByText(/accepted: [\d.]*[1-9]/);
  // Connections appear in the plot after some seconds.
  await cluster.until("connections in the plot", WAIT_SECONDS, async () => {
    await getMapped(cluster, `http://${NAME}/`);
    return (await accepted.count()) > 0 || undefined;
  });
  await keep("traffic");
  await look("components");
  await page.getByText("serving: until").waitFor();
  await keep("components");
});

test("the page follows a name that breaks and heals", async () => {
  // A class that no target has would break nothing: DNS leads the name to nginx, and so gives it its target.
  const broken = ingress("breaking", BREAKING, "nginx");
  const metadata = { ...broken.metadata, annotations: { "switchback.dev/target": "nobody" } };
  await cluster.apply({ ...broken, metadata });
  await look(`names?name=${BREAKING}`);
  await way().getByText("broken here").waitFor();
  await way().getByText("target-not-allowed").waitFor();
  await keep("way-broken");
  await cluster.apply(ingress("breaking", BREAKING, "nginx"));
  await way().getByText("broken here").waitFor({ state: "detached" });
  await way().getByRole("listitem").nth(2).getByText("works").waitFor();
  await cluster.delete(ingress("breaking", BREAKING, "nginx"));
});

test("without proxies the way ends at the proxy, and works again once they are back", async () => {
  await look(`names?name=${NAME}`);
  await cluster.kubectl("-n", SYSTEM, "scale", "deployment/switchback-proxy", "--replicas=0");
  await way().getByText("0 of 0 pods are ready: nothing relays").waitFor();
  await keep("way-without-proxy");
  await cluster.kubectl("-n", SYSTEM, "scale", "deployment/switchback-proxy", "--replicas=2");
  await way().getByRole("listitem").nth(3).getByText("works").waitFor();
});

test("the page runs the doctor and shows its findings", async () => {
  await look("doctor");
  await page.getByRole("button", { name: "Run the doctor" }).click();
  await page.getByText(/^\d+ broken, \d+ warning, /).waitFor();
  await page.getByText("install/deployment-ready").first().waitFor();
  await keep("doctor");
  await look(`workloads?q=${OPTED_IN}`);
  await page.getByRole("link", { name: `${OPTED_IN}/Deployment/client` }).waitFor();
  await keep("workloads");
});
