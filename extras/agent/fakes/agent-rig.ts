import { readFileSync } from "node:fs";
import type { TestContext } from "node:test";
import { createSelector } from "#hostmap/pod-selection.ts";
import type { PublishedMap, Reason } from "#hostmap/types.ts";
import { parseConfig } from "#lib/config/parse.ts";
import { http } from "#lib/http/http.ts";
import { LineLog } from "#test/fakes/clock.ts";
import { kubeletFiles, uidOf } from "#test/fakes/kubelet-files.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { stopTime } from "#test/fakes/stopped-time.ts";
import { AGENT_SECTIONS } from "../config.ts";
import { runAgent } from "../run.ts";
import { mapOf } from "./reconciler-rig.ts";

const AGENTS = "/namespaces/switchback-agent";
export const LEASE = `/apis/coordination.k8s.io/v1${AGENTS}/leases/switchback-agent-node-1`;
export const DAEMON_SET = `/apis/apps/v1${AGENTS}/daemonsets/switchback-agent`;
export const NAMESPACE = "/api/v1/namespaces/shop";
export const REVISION = "switchback.dev/revision";
export const LIST = "switchback.dev/pod-revisions";
export const NAME = /a\.example\.com/;
/** Pod revision of a pod that selects everything from a map with only `a.example.com`. */
export const podRevision = createSelector(mapOf("r1", "a.example.com"), 500)(undefined).revision;
/** The Lease is written at once, then at most once a second. */
export const LEASE_MS = 1_100;
/** Time between two reads of the DaemonSet, in milliseconds. */
export const POLL_MS = 10_000;

/** Maximum number of turns of the event loop that an answer over the loopback may take. */
const MOST_TURNS = 50_000;

export async function soon<T>(promise: Promise<T>): Promise<T> {
  let done = false;
  const note = () => {
    done = true;
  };
  promise.then(note, note);
  for (let turn = 0; !done && turn < MOST_TURNS; turn += 1) await new Promise(setImmediate);
  return await promise;
}

/** The agent of node-1 with real files, on a cluster in memory; time passes only in `pass`. */
export async function agentRig(t: TestContext, status: object = {}, collect = () => {}) {
  const pass = stopTime(t, 50);
  const kubelet = kubeletFiles(t);
  const kube = new MemoryKube();
  const log = new LineLog();
  const own = { kubeletRoot: kubelet.root, healthPort: 0 };
  const config = parseConfig({ address: "127.0.0.1", pods: { onChange: "live" }, agent: own }, AGENT_SECTIONS);
  let latest: PublishedMap | Reason | undefined;
  const maps = { found: (_: PublishedMap | Reason) => {}, inactiveMs: 0, started: 0, stopped: 0 };
  const offer = (next: PublishedMap | Reason) => {
    latest = next;
    maps.found(next);
  };
  const label = (value: string) => kube.put(NAMESPACE, { metadata: { labels: { "switchback.dev/inject": value } } });
  label("enabled");
  kube.put(DAEMON_SET, { status });
  const agent = await soon(
    runAgent(config, {
      client: kube.client,
      maps: {
        start(found) {
          maps.found = found;
          maps.started += 1;
          if (latest !== undefined) setImmediate(found, latest);
          return {
            inactiveMs: () => maps.inactiveMs,
            stop: async () => {
              maps.stopped += 1;
            },
          };
        },
      },
      log,
      identity: "agent-1",
      node: "node-1",
      collect,
      now: Date.now,
    }),
  );
  let ended = false;
  const stop = async () => {
    ended = true;
    await soon(agent.stop());
  };
  t.after(async () => {
    if (!ended) await stop();
  });
  const pathOf = (index: number) => `/api/v1/namespaces/shop/pods/pod-${index}`;
  return {
    kube,
    kubelet,
    log,
    maps,
    offer,
    agent,
    pass,
    stop,
    label,
    pathOf,
    /** Adds a pod to the node, with a hosts file as the kubelet writes it. */
    pod(index: number, uid = index) {
      kubelet.write(uidOf(uid));
      kube.put(pathOf(index), { metadata: { uid: uidOf(uid) }, spec: { nodeName: "node-1" } });
    },
    map: (revision: string, ...names: string[]) => offer(mapOf(revision, ...names)),
    hosts: (uid: number) => readFileSync(kubelet.path(uidOf(uid)), "latin1"),
    lease: () => kube.at(LEASE)?.metadata,
    ask: (path: string) => soon(get(agent.healthPort, path)),
  };
}

/** Requests a page of the health port. Returns its status and text. */
async function get(port: number, path: string): Promise<{ status: number | undefined; text: string }> {
  return await new Promise((resolve, reject) => {
    http
      .get({ host: "127.0.0.1", port, path, headers: { connection: "close" } }, (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (part: string) => {
          text += part;
        });
        response.on("end", () => resolve({ status: response.statusCode, text }));
      })
      .on("error", reject);
  });
}
