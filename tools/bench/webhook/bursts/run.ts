import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import type { Reporter } from "../../report.ts";
import { nextUid, shotOf } from "../load.ts";
import { POD_SHAPES } from "../pods.ts";
import type { ServerReady } from "../server.ts";

/** The output of client.go. */
interface Outcome {
  readonly named: number;
  readonly connections: number;
  /** Number of failures by the error's text. */
  readonly failures: Readonly<Record<string, number>>;
}

/**
 * Sends `pods` admissions in bursts of 1,000, with pauses of 4 to 8 s, by Go's HTTP client. This client reuses the
 * connections of a burst for the next one, and does not repeat a POST. If the server closes them, pods get no names.
 * Throws if Go is missing or the client fails.
 */
export async function measureBursts(ready: ServerReady, names: number, pods: number, report: Reporter): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "switchback-bursts-"));
  try {
    const [ca, review] = [join(folder, "ca.pem"), join(folder, "review.json")];
    const { bytes, uidAt } = shotOf(POD_SHAPES[0] as (typeof POD_SHAPES)[number]);
    bytes.write(nextUid(), uidAt, "latin1");
    await writeFile(ca, ready.ca);
    await writeFile(review, bytes.subarray(bytes.indexOf("\r\n\r\n") + 4));
    const url = `https://127.0.0.1:${ready.port}/mutate/namespace?timeout=2s`;
    const { named, connections, failures } = await runClient(
      ...["-url", url, "-ca", ca, "-review", review, "-names", `${names}`, "-pods", `${pods}`],
    );
    for (const [why, count] of Object.entries(failures)) process.stderr.write(`${count} pods: ${why}\n`);
    report.figure({ name: "burst-pods", value: pods, unit: "" });
    report.figure({ name: "burst-connections", value: connections, unit: "" });
    report.figure({ name: "burst-pods-without-names", value: pods - named, unit: "", goal: 0 });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function runClient(...args: string[]): Promise<Outcome> {
  const child = spawn("go", ["run", join(import.meta.dirname, "client.go"), ...args], {
    env: { ...process.env, GOWORK: "off", GO111MODULE: "off" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const failed = new Promise<never>((_, reject) => child.once("error", reject));
  const exited = new Promise<number | null>((resolve) => child.once("exit", resolve));
  const [output, code] = await Promise.race([Promise.all([text(child.stdout), exited]), failed]);
  if (code !== 0) throw new Error(`the client of the bursts ended with ${code}`);
  return JSON.parse(output);
}
