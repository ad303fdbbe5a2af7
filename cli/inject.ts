import { readFileSync } from "node:fs";
import { configSchema } from "../config/schema.ts";
import { describeError, SwitchbackError } from "../errors/errors.ts";
import { shortHash } from "../hostmap/hash.ts";
import { parseHosts } from "../hostmap/hosts-text.ts";
import { createSelector } from "../hostmap/select-hosts.ts";
import type { PublishedMap } from "../hostmap/types.ts";
import { connect, connectOptionsFrom } from "../kube/connect.ts";
import { pause } from "../kube/time.ts";
import { readSnapshot } from "../snapshot/map-reader.ts";
import { isMap, publishedMapOf } from "../snapshot/published-map.ts";
import type { CliContext } from "./context.ts";
import { injectYaml } from "./inject-yaml.ts";

export interface InjectFlags {
  readonly filename: string;
  readonly hosts?: string;
  readonly maxNames?: number;
  readonly longLine?: boolean;
  readonly namespace: string;
  readonly kubeconfig?: string;
  readonly context?: string;
}

/** The index and shards may disagree while the controller publishes; that takes milliseconds. */
const READ_TRIES = 5;
const READ_PAUSE_MS = 300;

/** Prints a file's objects with hostAliases in every pod template. Reports the outcome for each object on standard error. */
export async function inject(flags: InjectFlags, { env, stdout, stderr }: CliContext): Promise<void> {
  const text = readText(flags.filename === "-" ? 0 : flags.filename, flags.filename);
  const map = flags.hosts === undefined ? await liveMap(flags, env) : hostsFile(flags.hosts);
  const cap = flags.maxNames ?? configSchema.parse({}).inject.maxNames;
  if (!Number.isInteger(cap) || cap < 1)
    throw new SwitchbackError("input-invalid", "--max-names: expected a whole number from 1");
  const { output, outcomes } = injectYaml(text, {
    choose: createSelector(map, cap),
    longLine: flags.longLine ?? false,
  });
  if (outcomes.length === 0) stderr.write(`${flags.filename}: no pods or workloads found\n`);
  for (const { title, injected, reason } of outcomes) {
    stderr.write(`${title}: ${injected ? "injected" : `not injected (${reason.code})`}: ${reason.text}\n`);
  }
  if (outcomes.some(({ failed }) => failed)) {
    throw new SwitchbackError("input-invalid", "not all objects could be injected; no output was written");
  }
  stdout.write(output);
}

function readText(file: string | number, name: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw new SwitchbackError("input-invalid", `cannot read ${name}: ${describeError(error)}`);
  }
}

function hostsFile(file: string): PublishedMap {
  const text = readText(file, file);
  return publishedMapOf(shortHash(text), parseHosts(text));
}

async function liveMap(flags: InjectFlags, env: CliContext["env"]): Promise<PublishedMap> {
  const client = await connect(connectOptionsFrom(env, flags));
  try {
    let problem = "";
    for (let tries = 0; tries < READ_TRIES; tries += 1) {
      const { map } = await readSnapshot(client, flags.namespace);
      if (isMap(map)) return map;
      problem = map.text;
      await pause(READ_PAUSE_MS);
    }
    throw new SwitchbackError("data-corrupt", `the map in namespace ${flags.namespace} is not usable: ${problem}`);
  } finally {
    client.close();
  }
}
