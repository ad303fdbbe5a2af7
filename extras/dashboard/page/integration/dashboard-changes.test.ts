import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, test } from "node:test";
import type { FullStatus } from "#controller/status.ts";
import { known, notKnown } from "#doctor/fact.ts";
import { whyNoDebian } from "#test/cluster/debian.ts";
import { NAME, REFUSED } from "#test/fakes/full-status.ts";
import { axe, dashboard, go, page, SCREENSHOTS, shown, useDashboard } from "./dashboard-page.ts";
import { BROKEN, HEALTHY, HEALTHY_COMPONENTS } from "./states.ts";

describe("the dashboard in Chromium, while something changes", { skip: whyNoDebian() ?? false }, () => {
  useDashboard();

  test("the page follows a name that breaks and heals", async () => {
    let now: FullStatus = HEALTHY;
    shown.status = async () => now;
    shown.components = HEALTHY_COMPONENTS;
    await go("names?name=shop-7.example.com");
    const way = page.getByRole("region", { name: "Way of the name" });
    await way.getByRole("listitem").last().getByText("works").waitFor();
    now = {
      ...HEALTHY,
      names: HEALTHY.names.map((each) =>
        each.name === "shop-7.example.com"
          ? { ...each, addresses: [], reason: { code: "target-without-address", text: "no known ClusterIP" } }
          : each,
      ),
    };
    await way.getByText("broken here").waitFor();
    await way.getByText("What to do:").waitFor();
    await page
      .getByRole("row", { name: /shop-7\.example\.com/ })
      .getByText("target-without-address")
      .waitFor();
    now = HEALTHY;
    await way.getByRole("listitem").last().getByText("works").waitFor();
    assert.equal(await page.getByText("target-without-address").count(), 0);
    now = { ...HEALTHY, names: HEALTHY.names.filter(({ name }) => name !== "shop-7.example.com") };
    await page.getByText("No object claims shop-7.example.com").waitFor();
    now = HEALTHY;
    await way.getByRole("listitem").last().getByText("works").waitFor();
    assert.equal(await page.getByText("No object claims").count(), 0);
  });

  test("a failed read is reported and the last status stays shown, also after the command has stopped", async () => {
    await go("names");
    shown.status = async () => {
      throw new Error("the API server is away");
    };
    await page.getByText(/^status unknown: the API server is away; shown as of/).waitFor();
    await page.getByRole("link", { name: REFUSED.name }).waitFor();
    shown.status = async () => HEALTHY;
    await page.getByText(/^live, /).waitFor();
    await page.getByText("40 of 40 names").waitFor();
    await dashboard.stop();
    await page.getByText(/^switchback dashboard does not answer; shown as of/).waitFor();
    await page.getByText("40 of 40 names").waitFor();
    // The browser logs that it reconnects.
    shown.complaints = shown.complaints.filter(
      (text) => !/ERR_(CONNECTION_REFUSED|INCOMPLETE_CHUNKED_ENCODING|EMPTY_RESPONSE)/.test(text),
    );
  });

  test("the page reconnects after a lost connection, such as after a sleep, and shows what has changed", async () => {
    shown.status = async () => HEALTHY;
    await go("names");
    await page.getByText("40 of 40 names").waitFor();
    dashboard.server.closeAllConnections();
    await page.getByText(/^switchback dashboard does not answer; shown as of/).waitFor();
    shown.status = async () => ({ ...HEALTHY, names: HEALTHY.names.slice(1) });
    await page.getByText(/^live, /).waitFor();
    await page.getByText("39 of 39 names").waitFor();
    shown.complaints = shown.complaints.filter((text) => !text.includes("ERR_INCOMPLETE_CHUNKED_ENCODING"));
  });

  test("a status older than two minutes is not shown as live", async () => {
    await page.clock.install();
    await go("now");
    const read = Promise.withResolvers<FullStatus>();
    shown.status = () => read.promise;
    await page.clock.fastForward("01:30");
    await page.getByText(/^live, /).waitFor();
    await page.clock.fastForward("02:00");
    await page.getByText(/^nothing new for 3 min; shown as of/).waitFor();
    await page.clock.setSystemTime(Date.now());
    read.resolve(BROKEN);
    await page.clock.runFor("00:06");
    await page.getByText(/^live, /).waitFor();
  });

  test("without the right to read the status, no figure is shown as 0, and the rest is shown", async () => {
    shown.status = async () => {
      throw new Error("Forbidden; the ClusterRole switchback-reader has the right");
    };
    for (const view of ["now", "names", "workloads"]) {
      await page.goto(`${dashboard.address}#/${view}`);
      await page.getByText("status unknown: Forbidden; the ClusterRole switchback-reader has the right").waitFor();
      await page.getByText("Not known: the status cannot be read.").waitFor();
      assert.equal(
        await page
          .getByText(/\b0\b/)
          .filter({ hasText: /names|workloads/i, hasNotText: "pods are ready" })
          .count(),
        0,
        view,
      );
      if (view === "now") await page.getByText("deployment-not-ready").waitFor();
      await page.screenshot({ path: join(SCREENSHOTS, `${view}-no-rights-wide-light.png`), fullPage: true });
      assert.deepEqual(await axe(), [], view);
    }
  });

  test("measurements are drawn as they come, and also shown as text; without the right, they are unknown", async () => {
    await go("traffic");
    const canvas = page.getByRole("region", { name: "New connections" }).locator("canvas");
    await canvas.waitFor();
    const picture = () => canvas.evaluate((element) => (element as HTMLCanvasElement).toDataURL());
    const first = await picture();
    await page.waitForFunction((before) => document.querySelector("canvas")?.toDataURL() !== before, first);
    await page
      .getByRole("region", { name: "Errors by cause" })
      .getByText(/upstream: [\d.,]+ \/s/)
      .waitFor();
    await page.getByRole("region", { name: "Time to connect" }).getByText("99th percentile: 5 ms").waitFor();
    shown.metrics = () => notKnown("right-missing", "missing permission: get pods/proxy");
    await page.getByText("Unknown: missing permission: get pods/proxy").waitFor();
    await go("components");
    await page.getByText("Unknown: missing permission: get pods/proxy").waitFor();
    await page.getByText("Unknown: missing permission: list leases").waitFor();
  });

  test("the way of a name ends at a proxy that is not ready, and does not reach the ingress controller", async () => {
    await go(`names?name=${NAME.name}`);
    const way = page.getByRole("region", { name: "Way of the name" });
    await way.getByText("0 of 2 pods are ready: nothing relays").waitFor();
    await way.getByText("not reached").waitFor();
  });

  test("a status that cannot be drawn does not leave the last one on the page, and is tried again", async () => {
    const { sources: _sources, ...odd } = HEALTHY;
    await go("now");
    shown.status = async () => odd as FullStatus;
    await page.getByText("This page cannot show the status (TypeError: ").waitFor();
    assert.equal(await page.getByText("live, ").count(), 0);
    shown.status = async () => HEALTHY;
    await page.getByText(/^live, /).waitFor();
    shown.complaints = shown.complaints.filter((text) => !text.startsWith("TypeError: "));
  });

  test("of thousands of agents, the page shows those that are silent for longest, and counts the others", async () => {
    const agent = (index: number) => ({
      name: `switchback-agent-node-${index}`,
      mapRevision: "abc",
      silentMs: index === 4_000 ? 200_000 : 5_000,
      alive: index !== 4_000,
    });
    shown.components = {
      ...HEALTHY_COMPONENTS,
      agents: known(Array.from({ length: 5_000 }, (_, index) => agent(index))),
    };
    await go("components");
    await page.getByText("silent for 200 s").waitFor();
    await page.getByText("and 4,800 more").waitFor();
  });

  test("without a leader, figures are shown as unknown", async () => {
    const { running: _running, ...follower } = HEALTHY;
    shown.status = async () => ({ ...follower, leader: false });
    await go("now");
    await page.getByText("no-leader").waitFor();
    assert.equal(await page.getByText("unknown", { exact: true }).count(), 3);
    await go("workloads");
    await page.getByText("Unknown: no controller is the leader at the moment.").waitFor();
    // A leader without workloads, as in the demo.
    shown.status = async () => follower;
    await page.getByText("No controller observes workloads here.").waitFor();
  });
});
