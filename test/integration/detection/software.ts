import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { dialOnce } from "#proxy/detection/dial.ts";
import { createTestCa } from "../../cluster/pki.ts";
import { freePorts } from "../../cluster/ports.ts";
import { type Component, Processes, until } from "../../cluster/processes.ts";
import type { ReceiverPlace, ReceiverPorts } from "../../cluster/receivers.ts";

/** The name that the programs serve and have a certificate for. */
export const NAME = "shop.example.com";

/**
 * Returns the command line of a program that runs in all of its modes at once. `modes` has the ports of each mode.
 */
export type Start<Mode extends string> = (
  modes: readonly (readonly [Mode, ReceiverPorts])[],
  place: ReceiverPlace,
) => Promise<readonly [command: string, ...args: string[]]>;

/** The running program. */
export interface Running<Mode extends string> {
  readonly ports: Readonly<Record<Mode, ReceiverPorts>>;
  /** What it has logged so far. */
  log(): Promise<string>;
  stop(): Promise<void>;
}

export const SPEAKS = ["http", "tls"] as const;
const HEADERS = ["none", "v1", "v2"] as const;
const WAIT_SECONDS = 60;

/** Starts a program, and waits until it answers on each of its ports. */
export async function run<Mode extends string>(
  name: string,
  modes: readonly Mode[],
  start: Start<Mode>,
): Promise<Running<Mode>> {
  const folder = await mkdtemp(join(tmpdir(), `switchback-${name}-`));
  const processes = new Processes(folder, folder);
  const free = await freePorts(2 * modes.length);
  const ports = modes.map((mode, index) => {
    return [mode, { http: free[2 * index] ?? 0, tls: free[2 * index + 1] ?? 0 }] as const;
  });
  const [command, ...args] = await start(ports, await placeIn(folder));
  const component = processes.start(name, command, args, { HOME: folder });
  const stop = async (): Promise<void> => {
    await component.stop("SIGKILL");
    await processes.close(false);
  };
  try {
    await Promise.all(
      ports.flatMap(([, each]) => SPEAKS.map((speaks) => untilAnswers(each[speaks], speaks, component))),
    );
  } catch (error) {
    await stop();
    throw error;
  }
  const log = () => readFile(join(folder, `${name}.log`), "utf8");
  return { ports: Object.fromEntries(ports) as Record<Mode, ReceiverPorts>, log, stop };
}

async function placeIn(folder: string): Promise<ReceiverPlace> {
  const { key, cert } = createTestCa("detection").serving([NAME]);
  const write = async (name: string, text: string) => {
    await writeFile(join(folder, name), text);
    return join(folder, name);
  };
  return {
    address: "127.0.0.1",
    temporary: folder,
    key: await write("key", key),
    cert: await write("cert", cert),
    pem: await write("pem", `${cert}${key}`),
  };
}

/**
 * Waits until a mode answers: each answers with some header or without one. Traefik reads its certificates only after
 * it listens.
 */
async function untilAnswers(port: number, speaks: "http" | "tls", component: Component): Promise<void> {
  const missing = async () => ((await answers(port, speaks)) ? undefined : "no answer");
  await until(`${component.name} to answer`, WAIT_SECONDS, missing, component);
}

async function answers(port: number, speaks: "http" | "tls"): Promise<boolean> {
  const dial = { host: "127.0.0.1", port, speaks, name: NAME, path: "/", agent: "test" };
  const outcomes = HEADERS.map(async (header) => await dialOnce({ ...dial, header }));
  return (await Promise.all(outcomes)).some(({ kind }) => kind === "answered");
}
