import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, afterEach, before, beforeEach, describe, test } from "node:test";
import type { Browser, BrowserContext, Page } from "playwright-core";
import * as ownFiles from "#cli/own-files.ts";
import { statusReport } from "#cli/status.ts";
import type { FullStatus } from "#controller/status.ts";
import { type Fact, known, notKnown } from "#doctor/known.ts";
import type { ReportDocument } from "#doctor/report.ts";
import { dashboardFiles } from "#extras/dashboard/server/dashboard-files.ts";
import type { Components } from "#extras/dashboard/server/messages.ts";
import { seriesIn } from "#extras/dashboard/server/metrics-text.ts";
import { type RunningDashboard, startDashboard } from "#extras/dashboard/server/server.ts";
import { isShown, type PodMetrics } from "#extras/dashboard/server/traffic.ts";
import { whyNoDebian } from "#test/cluster/debian.ts";
import { userCache } from "#test/cluster/product-image.ts";
import { fullStatus, NAME, REFUSED, WORKLOAD } from "#test/fakes/full-status.ts";
import { startChromium } from "#test/integration/browser/chromium.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const SCREENSHOTS = userCache("screenshots");
const SIZES = { wide: { width: 1280, height: 800 }, narrow: { width: 360, height: 740 } } as const;
const WAIT_MS = 60_000;

const HEALTHY = fullStatus(
  { names: Array.from({ length: 40 }, (_, index) => ({ ...NAME, name: `shop-${index}.example.com` })) },
  {
    workloads: [
      { ...WORKLOAD, standing: "in-step", stale: 0, notInjected: 0, code: "current", text: "every pod has the names" },
    ],
  },
);
const BROKEN = fullStatus(
  {
    names: [
      NAME,
      REFUSED,
      {
        ...NAME,
        name: "late.example.com",
        addresses: [],
        reason: { code: "target-without-address", text: "the target edge has no known ClusterIP" },
      },
      {
        ...NAME,
        name: "elsewhere.example.com",
        warning: { code: "dns-elsewhere", text: "it resolves to 203.0.113.9" },
      },
    ],
    hold: { id: "x", since: 0, until: 1_900_000_000_000, names: 30, of: 40 },
    warnings: [{ code: "many-names", text: "a pod without a selection gets all 400 names" }],
    sources: [
      { name: "HTTPRoute", synced: false, problems: [{ place: "a.yaml", code: "yaml-invalid", text: "line 3" }] },
    ],
  },
  {
    workloads: [
      WORKLOAD,
      {
        ...WORKLOAD,
        namespace: "shop",
        name: "web",
        standing: "waiting",
        code: "waiting-for-turn",
        text: "cert-manager/Deployment/cert-manager is restarted first",
      },
    ],
  },
);
const REPORT: ReportDocument = {
  status: "broken",
  counts: { ok: 1, unknown: 1, warning: 0, broken: 1 },
  findings: [
    {
      check: "install",
      subject: "Deployment switchback-proxy",
      status: "ok",
      code: "deployment-ready",
      evidence: "2 of 2 pods are ready",
      cures: [],
    },
    {
      check: "relay",
      subject: "target edge",
      status: "broken",
      code: "dial-failing",
      evidence: "connection refused",
      cures: ["start the ingress controller"],
    },
    {
      check: "pods",
      subject: "pods",
      status: "unknown",
      code: "right-missing",
      evidence: "missing permission: list pods",
      cures: [],
    },
  ],
};

const MISSING = notKnown("right-missing", "missing permission: list leases in the namespace switchback-agent");
const deployment = (name: string, ready: number) => ({
  name,
  ready,
  desired: 2,
  image: "registry.example.com/switchback:0.1.0",
  pullPolicy: "Always",
});
const UPSTREAM = { namespace: "ingress-nginx", name: "ingress-nginx-controller" };
const PUBLISHER = {
  name: "coredns-import",
  place: "ConfigMap kube-system/coredns-custom",
  names: 40,
  leftOut: 0,
  behindSince: undefined,
  problem: undefined,
};
const HEALTHY_COMPONENTS: Components = {
  deployments: known([
    deployment("switchback-controller", 2),
    deployment("switchback-webhook", 2),
    deployment("switchback-proxy", 2),
  ]),
  agents: known([{ lease: "switchback-agent-node-1", mapRevision: "abc", podRevisions: undefined, silentMs: 5_000 }]),
  upstreams: known([{ ...UPSTREAM, ready: 2 }]),
  publishers: known([PUBLISHER]),
};
const BROKEN_COMPONENTS: Components = {
  deployments: known([
    deployment("switchback-controller", 1),
    deployment("switchback-webhook", 2),
    deployment("switchback-proxy", 0),
  ]),
  agents: MISSING,
  upstreams: known([{ ...UPSTREAM, ready: 0 }]),
  publishers: known([
    PUBLISHER,
    {
      ...PUBLISHER,
      name: "coredns",
      leftOut: 2,
      problem: { code: "publisher-taken-back", text: "kubectl-edit took it back" },
    },
  ]),
};

/** What a proxy has measured after so many scrapes, a controller's certificates with it. */
function measuredAfter(scrapes: number, failing: boolean): PodMetrics {
  const inDays = (days: number) => Math.round(Date.now() / 1_000) + days * 86_400;
  const count = scrapes * 40;
  const lines = [
    `switchback_proxy_connections_total{target="edge"} ${count}`,
    `switchback_proxy_connections_active{target="edge"} ${30 + (scrapes % 7)}`,
    ...(failing ? [`switchback_proxy_refused_total{target="edge",cause="upstream"} ${count / 2}`] : []),
    ...["0.001", "0.005", "+Inf"].map(
      (le, index) =>
        `switchback_proxy_connect_seconds_bucket{target="edge",le="${le}"} ${count * [0.6, 0.995, 1][index]!}`,
    ),
    `switchback_proxy_upstream_ok{target="edge",port="443"} ${failing ? 0 : 1}`,
    `switchback_webhook_admissions_total{code="injected",opt_in="pod"} ${scrapes * 3}`,
    `switchback_certificate_expiry_timestamp_seconds{certificate="ca"} ${inDays(300)}`,
    `switchback_certificate_expiry_timestamp_seconds{certificate="serving"} ${inDays(failing ? 0.5 : 20)}`,
    `switchback_certificates_state{code="${failing ? "leaf-due" : "steady"}"} 1`,
    `switchback_certificates_failing ${Number(failing)}`,
  ];
  return { pod: "a:1", series: seriesIn(lines.join("\n"), isShown) };
}

/** What is used of axe-core within the page. */
interface Axe {
  run(): Promise<{
    readonly violations: readonly { readonly id: string; readonly nodes: readonly { html: string }[] }[];
  }>;
}

const reason = whyNoDebian();

describe("the dashboard in Chromium", { skip: reason ?? false }, () => {
  let browser: Browser;
  let files: Awaited<ReturnType<typeof dashboardFiles>>;
  let dashboard: RunningDashboard;
  let context: BrowserContext;
  let page: Page;
  let status: () => Promise<FullStatus>;
  let components: Components;
  let metrics: () => Fact<readonly PodMetrics[]>;
  /** What the browser complained of, and what it asked for elsewhere. */
  let complaints: string[];
  let elsewhere: string[];

  before(async () => {
    mkdirSync(SCREENSHOTS, { recursive: true });
    [browser, files] = await Promise.all([startChromium(), dashboardFiles(ownFiles)]);
  });
  after(() => browser?.close());

  beforeEach(async () => {
    status = async () => BROKEN;
    components = BROKEN_COMPONENTS;
    let scrapes = 0;
    metrics = () => known([measuredAfter(++scrapes, components === BROKEN_COMPONENTS)]);
    const source = {
      place: "https://192.0.2.1:6443/",
      status: () => status(),
      components: async () => components,
      metrics: async () => metrics(),
      doctor: async () => REPORT,
    };
    dashboard = await startDashboard({ source, files, port: 0, everyMs: 20, trafficMs: 100 });
    complaints = [];
    elsewhere = [];
    await open(SIZES.wide);
  });
  afterEach(async () => {
    await context.close();
    await dashboard.stop();
    assert.deepEqual({ complaints, elsewhere }, { complaints: [], elsewhere: [] });
  });

  async function open(viewport: { width: number; height: number }, dark = false): Promise<void> {
    await context?.close();
    context = await browser.newContext({ viewport, colorScheme: dark ? "dark" : "light", reducedMotion: "reduce" });
    context.setDefaultTimeout(WAIT_MS);
    page = await context.newPage();
    page.on("console", (message) => ["error", "warning"].includes(message.type()) && complaints.push(message.text()));
    page.on("pageerror", (error) => complaints.push(String(error)));
    page.on("dialog", async (dialog) => {
      complaints.push(`dialog ${dialog.message()}`);
      await dialog.dismiss();
    });
    page.on(
      "request",
      (request) =>
        request.url().startsWith(dashboard.address) || request.url() === "data:," || elsewhere.push(request.url()),
    );
  }

  async function go(view: string): Promise<void> {
    await page.goto(`${dashboard.address}#/${view}`);
    await page.getByText(/^live, /).waitFor();
  }

  /** Rules that are broken, with the elements. */
  async function axe(): Promise<string[]> {
    // Evaluated by the debugger, which the page's policy does not bind.
    await page.evaluate(AXE);
    return await page.evaluate(async () => {
      const { violations } = await (window as unknown as { axe: Axe }).axe.run();
      return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 200)).join(" ")}`);
    });
  }

  const viewsOf = (state: "healthy" | "broken"): readonly (readonly [view: string, ready: string])[] => [
    ["now", state === "healthy" ? "Nothing is known" : "dial-failing"],
    ["names", state === "healthy" ? "of 40" : "of 4"],
    state === "healthy" ? ["names?name=shop-7.example.com", "works"] : [`names?name=${REFUSED.name}`, "broken here"],
    ["workloads?of=cert-manager/Deployment/cert-manager", "pods have the current names"],
    ["traffic", "99th percentile"],
    ["components", state === "healthy" ? "steady" : "leaf-due"],
    ["doctor", "Run the doctor"],
  ];
  for (const [size, viewport] of Object.entries(SIZES)) {
    for (const [state, shown] of [
      ["healthy", HEALTHY],
      ["broken", BROKEN],
    ] as const) {
      for (const dark of [false, true]) {
        test(`${size}, ${state}, ${dark ? "dark" : "light"}: no view breaks a rule of accessibility, and none is wider than the screen`, async () => {
          status = async () => shown;
          components = state === "broken" ? BROKEN_COMPONENTS : HEALTHY_COMPONENTS;
          await open(viewport, dark);
          for (const [view, ready] of viewsOf(state)) {
            await go(view);
            await page.getByText(ready).first().waitFor();
            if (view === "traffic") await page.locator("canvas").nth(4).waitFor();
            if (view === "doctor") {
              await page.getByRole("button", { name: "Run the doctor" }).click();
              await page.getByText("dial-failing").waitFor();
            }
            const name = `${view.replace(/\W.*/, (rest) => (rest ? "-one" : ""))}-${state}-${size}-${dark ? "dark" : "light"}.png`;
            await page.screenshot({ path: join(SCREENSHOTS, name), fullPage: true });
            assert.deepEqual(await axe(), [], view);
            const beyond = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
            assert.ok(beyond <= 0, `${view}: ${beyond} px too wide`);
          }
        });
      }
    }
  }

  test("what tenants write is text: no markup, no script, and nothing that turns or hides it", async () => {
    const evil = `<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>`;
    const from = { kind: `K${evil}`, namespace: "a\u202eb", name: "'\"`{{7*7}}" };
    const code = "__proto__";
    status = async () =>
      fullStatus(
        {
          names: [
            {
              ...NAME,
              name: `${evil}.example.com`,
              from,
              target: "\u0000\u001b[2J",
              addresses: [evil],
              reason: { code, text: evil },
            },
            { ...NAME, name: "x".repeat(5_000), from: { ...from, file: evil } },
          ],
          warnings: [{ code: "constructor", text: evil }],
          identity: evil,
        },
        {
          workloads: [{ ...WORKLOAD, namespace: evil, name: evil, code, text: evil, mode: "restart", modeFrom: evil }],
          underWay: evil,
          unknown: undefined,
        },
      );
    for (const view of ["now", "names", "workloads", `names?name=${encodeURIComponent(`${evil}.example.com`)}`]) {
      await go(view);
      await page.getByText("<img src=x").first().waitFor();
      assert.equal(await page.locator("img, script:not([src='app.js'])").count(), 0);
      assert.equal(await page.evaluate(() => "pwned" in window), false);
      assert.doesNotMatch((await page.locator("body").innerText()).replaceAll(/[\n\t]/g, ""), /[\p{Cc}\p{Cf}]/u);
      assert.deepEqual(await axe(), [], view);
      const beyond = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(beyond <= 0, `${view}: ${beyond} px too wide`);
    }
    await page.getByText("\\u202e").first().waitFor();
  });

  test("a name that breaks and heals while one looks", async () => {
    let now: FullStatus = HEALTHY;
    status = async () => now;
    components = HEALTHY_COMPONENTS;
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

  test("what is not known is said, what was known stays, and it goes on by itself; also when the command ends", async () => {
    await go("names");
    status = async () => {
      throw new Error("the API server is away");
    };
    await page.getByText(/^status unknown: the API server is away; shown as of/).waitFor();
    await page.getByRole("link", { name: REFUSED.name }).waitFor();
    status = async () => HEALTHY;
    await page.getByText(/^live, /).waitFor();
    await page.getByText("40 of 40 names").waitFor();
    await dashboard.stop();
    await page.getByText(/^switchback dashboard does not answer; shown as of/).waitFor();
    await page.getByText("40 of 40 names").waitFor();
    // The browser says that it tries again.
    complaints = complaints.filter(
      (text) => !/ERR_(CONNECTION_REFUSED|INCOMPLETE_CHUNKED_ENCODING|EMPTY_RESPONSE)/.test(text),
    );
  });

  test("a connection that ends, as of a machine that sleeps, is made again, and what came meanwhile is shown", async () => {
    status = async () => HEALTHY;
    await go("names");
    await page.getByText("40 of 40 names").waitFor();
    dashboard.server.closeAllConnections();
    await page.getByText(/^switchback dashboard does not answer; shown as of/).waitFor();
    status = async () => ({ ...HEALTHY, names: HEALTHY.names.slice(1) });
    await page.getByText(/^live, /).waitFor();
    await page.getByText("39 of 39 names").waitFor();
    complaints = complaints.filter((text) => !text.includes("ERR_INCOMPLETE_CHUNKED_ENCODING"));
  });

  test("a status that nothing newer follows is not called live for longer than two minutes", async () => {
    await page.clock.install();
    await go("now");
    const read = Promise.withResolvers<FullStatus>();
    status = () => read.promise;
    await page.clock.fastForward("01:30");
    await page.getByText(/^live, /).waitFor();
    await page.clock.fastForward("02:00");
    await page.getByText(/^nothing new for 3 min; shown as of/).waitFor();
    await page.clock.setSystemTime(Date.now());
    read.resolve(BROKEN);
    await page.clock.runFor("00:06");
    await page.getByText(/^live, /).waitFor();
  });

  test("without the right to read the status nothing is said to be none, and the rest is shown", async () => {
    status = async () => {
      throw new Error("Forbidden; the Role switchback-operator has the right");
    };
    for (const view of ["now", "names", "workloads"]) {
      await page.goto(`${dashboard.address}#/${view}`);
      await page.getByText("status unknown: Forbidden; the Role switchback-operator has the right").waitFor();
      await page.getByText("Not known: the status cannot be read.").waitFor();
      assert.equal(
        await page
          .getByText(/\b0\b/)
          .filter({ hasText: /names|workloads/i })
          .count(),
        0,
        view,
      );
      if (view === "now") await page.getByText("deployment-not-ready").waitFor();
      await page.screenshot({ path: join(SCREENSHOTS, `${view}-no-rights-wide-light.png`), fullPage: true });
      assert.deepEqual(await axe(), [], view);
    }
  });

  test("what was measured is drawn as it comes, and said in words; without the right to ask, it is unknown", async () => {
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
    metrics = () => notKnown("right-missing", "missing permission: get pods/proxy");
    await page.getByText("Unknown: missing permission: get pods/proxy").waitFor();
    await go("components");
    await page.getByText("Unknown: missing permission: get pods/proxy").waitFor();
    await page.getByText("Unknown: missing permission: list leases").waitFor();
  });

  test("the way of a name ends at a proxy that is not ready, and at an ingress controller that is not reached", async () => {
    await go(`names?name=${NAME.name}`);
    const way = page.getByRole("region", { name: "Way of the name" });
    await way.getByText("0 of 2 replicas are ready").waitFor();
    await way.getByText("not reached").waitFor();
  });

  test("a status that cannot be drawn, as of another release, is not taken for the one before, and is tried again", async () => {
    const { sources: _sources, ...odd } = HEALTHY;
    await go("now");
    status = async () => odd as FullStatus;
    await page.getByText("This page cannot show the status (TypeError: ").waitFor();
    assert.equal(await page.getByText("live, ").count(), 0);
    status = async () => HEALTHY;
    await page.getByText(/^live, /).waitFor();
    complaints = complaints.filter((text) => !text.startsWith("TypeError: "));
  });

  test("of thousands of agents those that are silent for longest are shown, and how many are not", async () => {
    const agent = (index: number) => ({
      lease: `switchback-agent-node-${index}`,
      mapRevision: "abc",
      podRevisions: undefined,
      silentMs: index === 4_000 ? 200_000 : 5_000,
    });
    components = { ...HEALTHY_COMPONENTS, agents: known(Array.from({ length: 5_000 }, (_, index) => agent(index))) };
    await go("components");
    await page.getByText("silent for 200 s").waitFor();
    await page.getByText("and 4,800 more").waitFor();
  });

  test("without a leader nothing is said to be none", async () => {
    const { running: _running, ...follower } = HEALTHY;
    status = async () => ({ ...follower, leader: false });
    await go("now");
    await page.getByText("No controller is the leader").waitFor();
    assert.equal(await page.getByText("unknown", { exact: true }).count(), 3);
    await go("workloads");
    await page.getByText("Unknown: no controller is the leader at the moment.").waitFor();
    // As of the demo.
    status = async () => follower;
    await page.getByText("There is no cluster whose workloads are observed.").waitFor();
  });

  test("is used by the keyboard alone", async () => {
    await go("now");
    const press = async (...keys: string[]) => {
      for (const key of keys) await page.keyboard.press(key);
    };
    await press("Tab", "Enter");
    assert.equal(await page.evaluate(() => document.activeElement?.textContent), "Now");
    await go("now");
    await page.getByRole("link", { name: "Names", exact: true }).first().focus();
    await press("Enter");
    await page.getByRole("heading", { name: "Names" }).waitFor();
    assert.equal(await page.evaluate(() => document.activeElement?.tagName), "H1");
    await press("Tab");
    await page.keyboard.type("late");
    await page.getByText("1 of 4 names").waitFor();
    // The filter, the table, its four headings, the name.
    await press("Tab", "Tab", "Tab", "Enter");
    await page.locator("th[aria-sort=ascending]", { hasText: "Name" }).waitFor();
    await press("Tab", "Tab", "Tab", "Tab", "Enter");
    await page.getByRole("region", { name: "Way of the name" }).getByText("broken here").waitFor();
    await page.goBack();
    await page.getByRole("region", { name: "Way of the name" }).waitFor({ state: "detached" });
  });

  test("a figure leads to the workloads that it counts", async () => {
    await go("now");
    await page.locator(".tiles li", { hasText: "Stuck" }).getByRole("link").click();
    await page.getByText("1 of 2 workloads").waitFor();
    await page.getByLabel("Show").selectOption("waiting");
    await page.getByRole("link", { name: "shop/Deployment/web" }).waitFor();
    assert.equal(await page.getByRole("table").getByRole("link").count(), 1);
  });

  test("a pod leads to its workload", async () => {
    await go("names");
    await page.getByLabel("Find a name").fill("shop/web-5d4f6-x2x8q");
    await page.getByRole("link", { name: "Deployment shop/web" }).click();
    await page.getByText("1 of 2 workloads").waitFor();
  });

  test("its figures are those of switchback status -o json", async () => {
    await go("now");
    const { document } = statusReport(BROKEN, { all: true }, 80);
    const { names, running } = document as FullStatus;
    const figure = (title: string) => page.locator(".tiles li", { hasText: title }).locator("b").innerText();
    assert.equal(await figure("Names"), String(names.length));
    assert.equal(await figure("Refused"), String(names.filter((each) => each.reason !== undefined).length));
    assert.equal(await figure("Workloads"), String(running?.counts.workloads));
    assert.equal(await figure("Pods behind"), String(running?.counts.stale));
    await go("names");
    const order = await page.getByRole("table").getByRole("link").allInnerTexts();
    assert.deepEqual(new Set(order), new Set(names.map(({ name }) => name)));
  });

  test("50,000 names: a frame's work while scrolling takes less than the 16 ms that it has, and the table stays small", async (t) => {
    const names = Array.from({ length: 50_000 }, (_, index) => ({
      ...NAME,
      name: `n${String(index).padStart(5, "0")}.example.com`,
    }));
    status = async () => fullStatus({ names });
    await go("names");
    await page.getByText("50,000 of 50,000 names").waitFor();
    const devtools = await context.newCDPSession(page);
    // The processor's time of the page's thread: what others do on this machine is not in it.
    await devtools.send("Performance.enable", { timeDomain: "threadTicks" });
    const workSeconds = async () => {
      const { metrics } = await devtools.send("Performance.getMetrics");
      return metrics.find(({ name }) => name === "TaskDuration")?.value ?? Number.NaN;
    };
    const frames = 60;
    let most = 0;
    const scroll = async () => {
      const before = await workSeconds();
      const rows = await page.locator(".rows").evaluate(async (element, count) => {
        let rowsSeen = 0;
        for (let frame = 0; frame < count; frame++) {
          element.scrollTop += 800;
          await new Promise(requestAnimationFrame);
          rowsSeen = Math.max(rowsSeen, element.querySelectorAll("tr").length);
        }
        return rowsSeen;
      }, frames);
      most = Math.max(most, rows);
      return (((await workSeconds()) - before) * 1_000) / frames;
    };
    // The least of several: a busy machine slows the processor down, and never speeds it up.
    let frameMs = await scroll();
    let rounds = 1;
    for (; rounds < 3 || (frameMs >= 16 && rounds < 10); rounds++) frameMs = Math.min(frameMs, await scroll());
    t.diagnostic(`${frameMs.toFixed(1)} ms of the processor a frame`);
    assert.ok(frameMs < 16, `${frameMs.toFixed(1)} ms a frame`);
    assert.ok(most < 100, `${most} rows`);
    // A row is 40 px high.
    const first = rounds * frames * (800 / 40);
    await page.getByRole("link", { name: `n${String(first).padStart(5, "0")}.example.com` }).waitFor();
    await page.getByLabel("Find a name").fill("n49999");
    await page.getByText("1 of 50,000 names").waitFor();
    await devtools.detach();
  });
});
