import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { podFacts } from "#lib/workloads/pods.ts";
import { kubeletFiles, OWNER, uidOf } from "#test/fakes/kubelet-files.ts";
import { hostsFileLimits } from "./hosts-file-limits.ts";
import { openHostsFiles } from "./hosts-files.ts";
import { HostsReconciler, type LiveMode } from "./hosts-reconciler.ts";
import type { NodePod } from "./node-pod.ts";

// A container that runs as root may write anything into its hosts file, even in a pod that never opted in.

const HEADER = "# Kubernetes-managed hosts file.\n";
const TAG = "\t# switchback.dev";
const BEGIN = "# BEGIN switchback.dev: names of this cluster, kept current while the pod runs";
const END = "# END switchback.dev";
const NAMES = Array.from({ length: 500 }, (_, index) => `app-${index}.team-${index % 50}.example.com`);
const { bytes: MOST_BYTES, lines: MOST_LINES } = hostsFileLimits(500);

/** Repeats a text to a number of bytes. */
function fill(text: string, bytes: number): string {
  return text.repeat(Math.ceil(bytes / text.length)).slice(0, bytes);
}

/** Contents that cost the most to read, by description. Each function gets the number of bytes that it may use. */
const ATTACKS: Readonly<Record<string, (bytes: number) => string>> = {
  "a block, then empty lines": (bytes) => `x${TAG}\n${fill("\n", bytes)}`,
  "blocks with empty lines between them": (bytes) => fill(`x${TAG}\n\n\n`, bytes),
  "lines of one character": (bytes) => fill("a\n", bytes),
  "one line of short names": (bytes) => `1 ${fill("a ", bytes)}`,
  "one line of different names": (bytes) =>
    `1 ${Array.from({ length: bytes / 5 }, (_, index) => index.toString(36).padStart(4, "x")).join(" ")}`,
  "the mapped names again and again": (bytes) => `1 ${fill(NAMES.join(" "), bytes)}`,
  "tags only": (bytes) => fill(`${TAG}\n`, bytes),
  "first markers": (bytes) => fill(`${BEGIN}\n`, bytes),
  "end markers": (bytes) => fill(`${END}\n`, bytes),
  "torn end markers": (bytes) => `${BEGIN}\nx${TAG}\n${fill("# END switchbacx\n", bytes)}`,
  "zeros before a marker": (bytes) => fill(`${"\0".repeat(1000)}${BEGIN}\n`, bytes),
  comments: (bytes) => fill("#\n", bytes),
};

function podOf(index: number): NodePod {
  const facts = podFacts({ metadata: { namespace: "shop", name: `pod-${index}`, uid: uidOf(index) } });
  return { ...facts, managedAliases: [], ended: false };
}

function start(t: TestContext, decide: (pod: NodePod) => LiveMode) {
  const kubelet = kubeletFiles(t);
  const files = openHostsFiles(kubelet.pods, OWNER, hostsFileLimits(500));
  const watches = { add() {}, remove() {} };
  const reconciler = new HostsReconciler({ files, watches, decide, maxNames: 500, log: silentLogger, onRound() {} });
  reconciler.setMap(publishedMapOf("r1", new Map(NAMES.map((name) => [name, ["198.51.100.9"]]))));
  t.after(() => {
    reconciler.stop();
    files.close();
  });
  return {
    reconciler,
    kubelet,
    hosts: (index: number) => readFileSync(kubelet.path(uidOf(index)), "latin1"),
    /** Gives a pod this hosts file. Returns how much of the thread's CPU the update took, in milliseconds. */
    async follow(index: number, text: string): Promise<number> {
      kubelet.write(uidOf(index));
      writeFileSync(kubelet.path(uidOf(index)), text, "latin1");
      const before = process.threadCpuUsage();
      reconciler.putPod(podOf(index));
      await reconciler.settled();
      const { user, system } = process.threadCpuUsage(before);
      return (user + system) / 1000;
    },
  };
}

for (const mode of ["live", "no"] as const) {
  test(`no hosts file takes more than 50 ms of the thread's CPU, in a pod with the mode ${mode}`, async (t) => {
    const { follow } = start(t, () => mode);
    await follow(0, HEADER);
    for (const [index, [what, text]] of Object.entries(ATTACKS).entries()) {
      const ms = await follow(index + 1, (HEADER + text(MOST_BYTES)).slice(0, MOST_BYTES));
      assert.ok(ms < 50, `${what}: ${ms.toFixed(0)} ms`);
    }
  });
}

test("a file over the limits is refused and stays as it is, also if only the block would exceed them", async (t) => {
  const { follow, hosts, reconciler } = start(t, () => "live");
  const comment = `#${" ".repeat(998)}\n`;
  const size = async (index: number, text: string): Promise<string | undefined> => {
    await follow(index, text);
    if (hosts(index) !== text) return "written";
    const found = reconciler.state.problems.find(({ pod }) => pod === `shop/pod-${index}`);
    return found?.reason.code;
  };
  const ofBytes = (bytes: number) => HEADER + fill(comment, bytes - HEADER.length);
  const ofLines = (lines: number) => HEADER + "x y\n".repeat(lines - 1);
  assert.deepEqual(
    [
      await size(1, ofBytes(MOST_BYTES + 1)),
      await size(2, ofBytes(MOST_BYTES)),
      await size(3, ofBytes(MOST_BYTES - 64 * 1024)),
      // The kubelet's own lines do not count.
      await size(4, ofLines(MOST_LINES + 10)),
      await size(5, ofLines(MOST_LINES)),
      await size(6, ofLines(MOST_LINES - 1024)),
    ],
    ["file-too-large", "file-too-large", "written", "file-too-large", "file-too-large", "written"],
  );
});

test("any number of empty lines from an interrupted write counts as one line", async (t) => {
  const { follow, hosts } = start(t, () => "live");
  await follow(1, `${HEADER}${BEGIN}\nx${TAG}\n${"\n".repeat(10 * MOST_LINES)}`);
  assert.ok(hosts(1).endsWith(`${END}\n`) && hosts(1).length < 20_000);
});

test("only the first 16,384 names of foreign lines are compared", async (t) => {
  const { follow, hosts } = start(t, () => "live");
  const [first = "", second = ""] = NAMES;
  const others = Array.from({ length: 16_384 }, (_, index) => `x${index}`);
  await follow(1, `${HEADER}1 ${first} ${others.slice(2).join(" ")}\n2 ${second} ${second}x\n`);
  const written = hosts(1).slice(hosts(1).indexOf(BEGIN)).split(/\s/);
  assert.deepEqual([written.includes(first), written.includes(second)], [false, false]);
  await follow(2, `${HEADER}1 ${first} ${others.slice(1).join(" ")}\n2 ${second}\n`);
  const more = hosts(2).slice(hosts(2).indexOf(BEGIN)).split(/\s/);
  assert.deepEqual([more.includes(first), more.includes(second)], [false, true]);
});
