import { METADATA_LIST } from "#lib/kube/accept.ts";
import { type ConnectFlags, connect, connectOptionsFrom } from "#lib/kube/connect.ts";
import { contextNames } from "#lib/kube/kubeconfig.ts";
import { corePath } from "#lib/kube/paths.ts";
import type { ObjectMeta } from "#lib/kube/types.ts";
import type { CliContext } from "#lib/process/context.ts";
import { DEFAULT_NAMESPACE } from "../options.ts";
import type { Asked } from "./command-line.ts";

/** Short, because somebody waits at the prompt. */
const TIMEOUT_SECONDS = 2;
const MAX_OFFERED = 200;
/** Values that every shell takes literally. Others are not offered: a context may be called `$(rm x)`. */
const PLAIN = /^[\w.:@/+=-]+$/;

type Flags = ConnectFlags & { readonly namespace: string };
type Env = CliContext["env"];

const READERS: Readonly<Record<Asked, (flags: Flags, env: Env) => Promise<readonly string[]>>> = {
  async contexts(flags, env) {
    const { kubeconfig } = connectOptionsFrom(env, flags);
    return kubeconfig === undefined ? [] : await contextNames(kubeconfig);
  },
  async namespaces(flags, env) {
    const client = await connect(connectOptionsFrom(env, flags));
    try {
      const path = corePath("namespaces");
      const { items } = await client.list<{ readonly metadata: ObjectMeta }>(path, {}, { accept: METADATA_LIST });
      return items.flatMap(({ metadata }) => metadata.name ?? []);
    } finally {
      client.close();
    }
  },
  names: async (flags, env) =>
    (await (await import("../inject/live-map.ts")).readLiveMap(flags, env)).hosts.map(({ name }) => name),
};

/**
 * `switchback complete`: prints the values that a shell offers for a word, one per line. `words` are the word at the
 * cursor, then the whole line before it. Prints nothing if the values cannot be read: a shell has no place for an
 * error.
 */
export async function complete(
  what: string,
  [word = "", ...line]: readonly string[],
  { env, stdout }: Pick<CliContext, "env" | "stdout">,
): Promise<void> {
  const read = Object.hasOwn(READERS, what) ? READERS[what as Asked] : undefined;
  const values = await read?.(flagsOf(line), env).catch(() => []);
  const start = word.replace(/^--[^=]*=/, "");
  const offered = values?.filter((value) => value.startsWith(start) && PLAIN.test(value)) ?? [];
  for (const value of offered.slice(0, MAX_OFFERED)) stdout.line(value);
}

/** The flags of the line that select the cluster. The line may be incomplete, so nothing in it is an error. */
function flagsOf(line: readonly string[]): Flags {
  const flagOf = (...names: readonly string[]) => {
    const at = line.findLastIndex((word) => names.includes(word.split("=", 1)[0] ?? ""));
    const word = line[at];
    const value = word?.includes("=") ? word.slice(word.indexOf("=") + 1) : line[at + 1];
    return at < 0 || !value || value.startsWith("-") ? undefined : value;
  };
  const [kubeconfig, context, as] = [flagOf("--kubeconfig"), flagOf("--context"), flagOf("--as")];
  return {
    namespace: flagOf("-n", "--namespace") ?? DEFAULT_NAMESPACE,
    requestTimeout: TIMEOUT_SECONDS,
    ...(kubeconfig !== undefined && { kubeconfig }),
    ...(context !== undefined && { context }),
    ...(as !== undefined && { as }),
  };
}
