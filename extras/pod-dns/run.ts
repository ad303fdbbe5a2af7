import { join } from "node:path";
import type { LeftOut } from "#extras/left-out.ts";
import type { Reason } from "#hostmap/types.ts";
import type { MapReader } from "#lib/documents/map-reader.ts";
import { isMap } from "#lib/documents/published-map.ts";
import { describeError } from "#lib/errors/errors.ts";
import { livenessOf, startHealthServer } from "#lib/http/listen.ts";
import { createBackoff } from "#lib/kube/backoff.ts";
import { Reconciler } from "#lib/kube/reconciler.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { hashValue, MetricsRegistry } from "#lib/telemetry/metrics.ts";
import type { Resolver } from "./config.ts";
import { COREFILE, HOSTS_FILE, renderCorefile, ZONE_FILE } from "./corefile.ts";
import type { DnsMap } from "./dns-map.ts";
import { type DnsState, dnsReadiness } from "./health.ts";
import { MapFiles } from "./map-files.ts";
import { peerQuestions, waitForPeerResolver } from "./wait-for-peer-resolver.ts";
import { removePartial, replaceFile } from "./write-file.ts";

interface DnsDeps {
  readonly maps: MapReader<DnsMap>;
  /** Undefined if not known. */
  readonly clusterDomain: string | undefined;
  readonly log: Logger;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

interface RunningDns {
  readonly healthPort: number;
  readonly state: Readonly<DnsState>;
  /** Stops. The files stay, so CoreDNS continues with the last map. */
  stop(): Promise<void>;
}

/**
 * Shortest and longest wait before another attempt to write the files, in milliseconds. A write fails if the volume
 * is full.
 */
const RETRY_MS = 1_000;
const MAX_RETRY_MS = 30_000;
/** Domain of the cluster if it is not known. It is the default of Kubernetes. */
const DEFAULT_CLUSTER_DOMAIN = "cluster.local";

/**
 * Runs the sidecar of a resolver. Writes the Corefile once, and the other files whenever the map changes. Throws
 * `listen-failed`; rejects if the Corefile cannot be written.
 */
export async function runDns(settings: Resolver, deps: DnsDeps): Promise<RunningDns> {
  const { log } = deps;
  const { address, healthPort, revision, waitFor } = settings;
  await writeCorefile(settings, deps.clusterDomain ?? DEFAULT_CLUSTER_DOMAIN);

  const state: DnsState = { written: undefined, leftOut: undefined, problem: undefined, waitsFor: waitFor };
  const metrics = createDnsMetrics(state);
  const files = mapFilesOf(settings, deps);
  let newest: DnsMap | undefined;
  const setProblem = (problem: Reason): void => {
    if (problem.text !== state.problem?.text)
      log.warn({ ...problem, revision: state.written?.revision }, "map: not written");
    state.problem = problem;
  };
  const write = async (): Promise<undefined> => {
    const map = newest;
    if (map === undefined) return;
    noteLeftOut(await files.write(map), state, log);
    metrics.wrote("ok");
    state.written = { revision: map.revision, names: map.size };
    if (newest === map) state.problem = undefined;
    log.info({ revision: map.revision, names: map.size }, "map: written");
  };
  const writer = new Reconciler({
    reconcile: write,
    retry: {
      backoff: createBackoff(RETRY_MS, MAX_RETRY_MS),
      onError(error) {
        metrics.wrote("failed");
        setProblem({ code: "dns-not-written", text: `cannot write CoreDNS' files: ${describeError(error)}` });
      },
    },
  });
  const maps = deps.maps.start((offer) => {
    if (!isMap(offer)) {
      setProblem(offer);
      return;
    }
    newest = offer;
    writer.enqueue();
  });
  const stopping = new AbortController();
  const turn = waitForTurn(settings, stopping.signal).then(() => {
    if (stopping.signal.aborted) return;
    if (waitFor !== undefined) log.info({ service: waitFor, revision }, "rollout: this resolver starts now");
    state.waitsFor = undefined;
  });
  const stopWriting = async (): Promise<void> => {
    stopping.abort();
    await turn;
    await maps.stop();
    await writer.stop();
  };
  try {
    const health = await startHealthServer({
      live: () => livenessOf(maps.inactiveMs?.() ?? 0),
      ready: () => dnsReadiness(state),
      address,
      port: healthPort,
      registry: metrics.registry,
    });
    log.info({ healthPort: health.port }, "listening");
    return {
      healthPort: health.port,
      state,
      async stop() {
        await stopWriting();
        await health.close();
      },
    };
  } catch (error) {
    await stopWriting();
    throw error;
  }
}

async function writeCorefile({ directory, address, upstream }: Resolver, clusterDomain: string): Promise<void> {
  // A previous process may have ended in the middle of a write.
  for (const file of [COREFILE, HOSTS_FILE, ZONE_FILE]) await removePartial(join(directory, file));
  await replaceFile(
    join(directory, COREFILE),
    renderCorefile({ directory, address, upstream, clusterDomains: [clusterDomain] }),
  );
}

function noteLeftOut(leftOut: LeftOut, state: DnsState, log: Logger): void {
  const { reason } = leftOut;
  if (reason !== undefined && reason.text !== state.leftOut?.reason?.text) log.warn({ ...reason }, "map: left out");
  state.leftOut = leftOut;
}

function mapFilesOf({ directory, revision }: Resolver, { now }: DnsDeps): MapFiles {
  return new MapFiles({ directory, revision, seconds: () => Math.floor(now() / 1000) });
}

async function waitForTurn({ waitFor, revision }: Resolver, signal: AbortSignal): Promise<void> {
  if (waitFor !== undefined) await waitForPeerResolver({ service: waitFor, revision, ...peerQuestions(signal) });
}

/** The sidecar's metrics. CoreDNS itself has the metrics of look-ups. */
interface DnsMetrics {
  readonly registry: MetricsRegistry;
  /** Counts a write of the files, by result. */
  wrote(result: "ok" | "failed"): void;
}

function createDnsMetrics(state: Readonly<DnsState>): DnsMetrics {
  const registry = new MetricsRegistry();
  const writes = registry.labelledCounter("switchback_dns_writes_total", "Writes of CoreDNS' files, by result.");
  registry.gauge("switchback_dns_map_names", "Names in CoreDNS' files.", () => state.written?.names ?? 0);
  registry.gauge(
    "switchback_dns_map_problem",
    "1 while the newest map is not in CoreDNS' files; the one before is answered.",
    () => (state.problem ? 1 : 0),
  );
  registry.gauge(
    "switchback_dns_left_out",
    "Names and wildcards of the map that are not in CoreDNS' files.",
    () => state.leftOut?.count ?? 0,
  );
  registry.gauge("switchback_dns_map_hash", "Hash of the revision of the map in CoreDNS' files.", () =>
    state.written === undefined ? [] : [[{}, hashValue(state.written.revision)]],
  );
  return { registry, wrote: (result) => writes.inc({ result }) };
}
