import { join } from "node:path";
import * as ownFiles from "#cli/own-files.ts";
import { known } from "#doctor/fact.ts";
import { fullStatus, NAME } from "#test/fakes/full-status.ts";
import { startChromium } from "#test/integration/browser/chromium.ts";
import { HEALTHY_COMPONENTS, HEALTHY_REPORT, measuredAfter } from "../page/integration/states.ts";
import { dashboardFiles } from "../server/dashboard-files.ts";
import { startDashboard } from "../server/server.ts";

// `npx node extras/dashboard/integration/picture.ts` makes the README's pictures of the dashboard, light and dark.

const DOCS = join(import.meta.dirname, "..", "..", "..", "docs");
const SHOWN = "shop.example.com";

const name = (host: string, change: Partial<typeof NAME> = {}) => ({
  ...NAME,
  name: host,
  target: "ingress-nginx",
  ...change,
});
const [edge] = fullStatus().targets;
if (edge === undefined) throw new Error("the status of the tests has a target");
const status = fullStatus({
  targets: [{ ...edge, name: "ingress-nginx" }],
  names: [
    name(SHOWN),
    name("api.example.com", { from: { ...NAME.from, name: "api" } }),
    name("checkout.example.com", { from: { ...NAME.from, kind: "HTTPRoute", name: "checkout" } }),
    name("intranet.example.com", {
      from: { kind: "Ingress", namespace: "office", name: "intranet" },
      target: undefined,
      addresses: [],
      reason: { code: "no-target", text: "no target has the class internal" },
    }),
  ],
});

let scrapes = 0;
const source = {
  place: "prod (https://192.0.2.1:6443)",
  status: async () => status,
  components: async () => HEALTHY_COMPONENTS,
  metrics: async () => known([measuredAfter(++scrapes, false)]),
  doctor: async () => HEALTHY_REPORT,
};
const dashboard = await startDashboard({ source, files: await dashboardFiles(ownFiles), port: 0 });
const browser = await startChromium();
try {
  for (const colorScheme of ["light", "dark"] as const) {
    const page = await browser.newPage({
      viewport: { width: 1200, height: 600 },
      deviceScaleFactor: 1.25,
      colorScheme,
    });
    await page.goto(`${dashboard.address}#/names?name=${SHOWN}`);
    await page
      .getByRole("region", { name: "Way of the name" })
      .getByRole("listitem")
      .last()
      .getByText("works")
      .waitFor();
    await page.screenshot({ path: join(DOCS, `dashboard-${colorScheme}.png`) });
  }
} finally {
  await browser.close();
  await dashboard.stop();
}
