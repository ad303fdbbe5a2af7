import { mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stringify } from "yaml";
import { unpackedDebian } from "../../cluster/debian.ts";
import { freePorts } from "../../cluster/ports.ts";
import { Processes, until as untilRuns } from "../../cluster/processes.ts";
import { runTool } from "../../cluster/tools.ts";
import { until } from "../system.ts";

const CHART_FILES = join(import.meta.dirname, "..", "..", "..", "manifests", "chart", "files");
/** Files with the chart's alerts and its Grafana dashboard. */
export const ALERTS = join(CHART_FILES, "alerts.yaml");
export const DASHBOARD = join(CHART_FILES, "grafana-dashboard.json");

const WAIT_MS = 120_000;

/**
 * Debian's Prometheus, in the user's cache. It is 48 MB and takes a few seconds, while a build of the newest version
 * from its module takes minutes. The rules and the dashboard use nothing that is newer than it.
 */
async function program(name: "prometheus" | "promtool"): Promise<string> {
  return join(await unpackedDebian("prometheus", async () => ["prometheus"]), "usr/bin", name);
}

/** Runs promtool until it ends. It looks in `folder` for the files that other files name. */
export async function promtool(
  args: readonly string[],
  { input = "", folder = "." } = {},
): Promise<{ code: number; output: string }> {
  const within = ["-C", folder, await program("promtool"), ...args];
  const { code, stdout, stderr } = await runTool("env", within, {}, input);
  return { code, output: `${stdout}${stderr}` };
}

/** The chart's alerts for a test that cannot wait: durations of minutes become seconds. */
export async function hastyAlerts(): Promise<string> {
  const rules = await readFile(ALERTS, "utf8");
  return rules
    .replaceAll(/for: \d+m/g, "for: 2s")
    .replaceAll("[5m]", "[10s]")
    .replaceAll(/offset \d+m/g, "offset 10s")
    .replaceAll("[1h]", "[60s]");
}

/** Where Prometheus scrapes metrics, with the values of the labels `job` and `instance`. */
export interface ScrapeTarget {
  readonly job: string;
  readonly instance: string;
  /** `host:port`. */
  readonly address: string;
}

interface Sample {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: readonly [time: number, value: string];
}

export interface PrometheusOptions {
  /** Text of a rule file. */
  readonly rules: string;
  /** Jobs in addition to the targets of `scrape`, as in `scrape_configs`. */
  readonly jobs: readonly object[];
}

/** A real Prometheus on 127.0.0.1, which scrapes each second. */
export class Prometheus {
  readonly #folder: string;
  readonly #processes: Processes;
  readonly #options: PrometheusOptions;
  #stop: () => Promise<void> = async () => {};
  #port = 0;

  private constructor(folder: string, options: PrometheusOptions) {
    this.#folder = folder;
    this.#options = options;
    this.#processes = new Processes(folder, folder);
  }

  static async start(options: PrometheusOptions): Promise<Prometheus> {
    const prometheus = new Prometheus(await mkdtemp(join(tmpdir(), "switchback-prometheus-")), options);
    try {
      await prometheus.#start();
    } catch (error) {
      await prometheus.stop();
      throw error;
    }
    return prometheus;
  }

  async #start(): Promise<void> {
    const file = (name: string) => join(this.#folder, name);
    const components = { files: [file("targets.json")], refresh_interval: "1s" };
    const scrape = [{ job_name: "components", file_sd_configs: [components] }, ...this.#options.jobs];
    const config = {
      global: { scrape_interval: "1s", scrape_timeout: "1s", evaluation_interval: "1s" },
      rule_files: [file("rules.yaml")],
      scrape_configs: scrape,
    };
    await writeFile(file("prometheus.yaml"), stringify(config));
    await writeFile(file("rules.yaml"), this.#options.rules);
    await this.scrape([]);
    [this.#port = 0] = await freePorts(1);
    const flags = {
      "config.file": file("prometheus.yaml"),
      "storage.tsdb.path": file("data"),
      "web.listen-address": `127.0.0.1:${this.#port}`,
      "web.console.templates": file("none"),
      "web.console.libraries": file("none"),
    };
    const args = Object.entries(flags).map(([name, value]) => `--${name}=${value}`);
    const child = this.#processes.start("prometheus", await program("prometheus"), args);
    this.#stop = () => child.stop("SIGKILL");
    await untilRuns("Prometheus", WAIT_MS / 1000, async () => void (await this.#get("/-/ready")), child);
  }

  /** Replaces the targets. Prometheus reads them from the file. */
  async scrape(targets: readonly ScrapeTarget[]): Promise<void> {
    const groups = targets.map(({ job, instance, address }) => ({ targets: [address], labels: { job, instance } }));
    const file = join(this.#folder, "targets.json");
    await writeFile(`${file}.new`, JSON.stringify(groups));
    await rename(`${file}.new`, file);
  }

  /** The series that a query returns now. */
  async query(expression: string): Promise<Sample[]> {
    const answer = await this.#get(`/api/v1/query?query=${encodeURIComponent(expression)}`);
    const { status, data, error } = JSON.parse(answer) as {
      status: string;
      data?: { result: Sample[] };
      error?: string;
    };
    if (status !== "success" || data === undefined) throw new Error(`${expression}: ${error}`);
    return data.result;
  }

  /** The labels of the alerts that fire. `alertname` is one of them. */
  async firing(): Promise<Array<Readonly<Record<string, string>>>> {
    return (await this.query('ALERTS{alertstate="firing"}')).map(({ metric }) => metric);
  }

  /** Waits until an alert fires, and returns its labels. */
  async fires(alert: string): Promise<Readonly<Record<string, string>>> {
    const found: Array<Readonly<Record<string, string>>> = [];
    await until(
      `${alert} to fire`,
      async () => {
        found.push(...(await this.firing()).filter(({ alertname }) => alertname === alert));
        return found.length > 0;
      },
      WAIT_MS,
    );
    return found[0] ?? {};
  }

  /** Waits until an alert no longer fires. */
  async resolves(alert: string): Promise<void> {
    const isOver = async () => !(await this.firing()).some(({ alertname }) => alertname === alert);
    await until(`${alert} to resolve`, isOver, WAIT_MS);
  }

  async stop(): Promise<void> {
    await this.#stop();
    await this.#processes.close(false);
    await rm(this.#folder, { recursive: true, force: true });
  }

  async #get(path: string): Promise<string> {
    return await (await fetch(`http://127.0.0.1:${this.#port}${path}`)).text();
  }
}
