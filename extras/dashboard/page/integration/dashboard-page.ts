import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, afterEach, before, beforeEach } from "node:test";
import type { Browser, BrowserContext, Page } from "playwright-core";
import * as ownFiles from "#cli/own-files.ts";
import type { FullStatus } from "#controller/status.ts";
import { type Fact, known } from "#doctor/fact.ts";
import { dashboardFiles } from "#extras/dashboard/server/dashboard-files.ts";
import type { Components } from "#extras/dashboard/server/messages.ts";
import { type RunningDashboard, startDashboard } from "#extras/dashboard/server/server.ts";
import type { PodMetrics } from "#extras/dashboard/server/traffic.ts";
import { userCache } from "#test/cluster/binaries.ts";
import { startChromium } from "#test/integration/browser/chromium.ts";
import { AWAY, AWAY_COMPONENTS, BROKEN, BROKEN_COMPONENTS, HEALTHY_REPORT, measuredAfter, REPORT } from "./states.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
export const SCREENSHOTS = userCache("screenshots");
export const SIZES = { wide: { width: 1280, height: 800 }, narrow: { width: 360, height: 740 } } as const;
const WAIT_MS = 60_000;

/** The part of axe-core that the tests use within the page. */
interface Axe {
  run(): Promise<{
    readonly violations: readonly { readonly id: string; readonly nodes: readonly { html: string }[] }[];
  }>;
}

/** What the dashboard shows; a test may change it. */
interface Shown {
  status: () => Promise<FullStatus>;
  components: Components;
  metrics: () => Fact<readonly PodMetrics[]>;
  /** Errors, warnings and dialogs of the browser, and its requests to other addresses. */
  complaints: string[];
  elsewhere: string[];
}

export let dashboard: RunningDashboard;
export let context: BrowserContext;
export let page: Page;
export let shown: Shown;
let browser: Browser;

/** Starts a dashboard of the broken installation for each test of a suite, and a page in Chromium. */
export function useDashboard(): void {
  let files: Awaited<ReturnType<typeof dashboardFiles>>;
  before(async () => {
    mkdirSync(SCREENSHOTS, { recursive: true });
    [browser, files] = await Promise.all([startChromium(), dashboardFiles(ownFiles)]);
  });
  after(() => browser?.close());

  beforeEach(async () => {
    let scrapes = 0;
    shown = {
      status: async () => BROKEN,
      components: BROKEN_COMPONENTS,
      metrics: () => known([measuredAfter(++scrapes, shown.components === BROKEN_COMPONENTS)]),
      complaints: [],
      elsewhere: [],
    };
    const source = {
      place: "prod (https://192.0.2.1:6443/)",
      status: () => shown.status(),
      components: async () => shown.components,
      metrics: async () => shown.metrics(),
      doctor: async () => {
        if (shown.components === AWAY_COMPONENTS) throw new Error(AWAY.reason.text);
        return shown.components === BROKEN_COMPONENTS ? REPORT : HEALTHY_REPORT;
      },
    };
    dashboard = await startDashboard({ source, files, port: 0, everyMs: 20, trafficMs: 100 });
    await open(SIZES.wide);
  });
  afterEach(async () => {
    await context.close();
    await dashboard.stop();
    const { complaints, elsewhere } = shown;
    assert.deepEqual({ complaints, elsewhere }, { complaints: [], elsewhere: [] });
  });
}

export async function open(viewport: { width: number; height: number }, dark = false): Promise<void> {
  await context?.close();
  context = await browser.newContext({ viewport, colorScheme: dark ? "dark" : "light", reducedMotion: "reduce" });
  context.setDefaultTimeout(WAIT_MS);
  page = await context.newPage();
  page.on(
    "console",
    (message) => ["error", "warning"].includes(message.type()) && shown.complaints.push(message.text()),
  );
  page.on("pageerror", (error) => shown.complaints.push(String(error)));
  page.on("dialog", async (dialog) => {
    shown.complaints.push(`dialog ${dialog.message()}`);
    await dialog.dismiss();
  });
  page.on(
    "request",
    (request) =>
      request.url().startsWith(dashboard.address) || request.url() === "data:," || shown.elsewhere.push(request.url()),
  );
}

export async function go(view: string): Promise<void> {
  await page.goto(`${dashboard.address}#/${view}`);
  // If only the view changes, the page shows the previous view for a moment.
  await page.locator(`nav a[aria-current=page][href="#/${view.split("?")[0]}"]`).waitFor();
  await page.getByText(/^live, /).waitFor();
}

/** Accessibility rules that the page breaks, each with the elements. */
export async function axe(): Promise<string[]> {
  // The debugger evaluates the script, because the page's policy does not apply to it.
  await page.evaluate(AXE);
  return await page.evaluate(async () => {
    const { violations } = await (window as unknown as { axe: Axe }).axe.run();
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 200)).join(" ")}`);
  });
}
