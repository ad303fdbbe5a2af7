import type { OptInRules } from "#hostmap/opt-in.ts";
import type { Config } from "./schema.ts";

/** The configured rules, beside the labels, that decide whether a namespace opted in. */
export function optInRules({ namespace, pods, optIn }: Pick<Config, "namespace" | "pods" | "optIn">): OptInRules {
  return { excluded: new Set([...pods.excludedNamespaces, namespace]), listed: new Set(optIn.namespaces) };
}

/** The namespaces whose workloads may be restarted: those in `restart.namespaces` and those in `optIn.namespaces`. */
export function restartNamespaces({
  restart,
  optIn,
}: {
  readonly restart: Pick<Config["restart"], "namespaces">;
  readonly optIn: Config["optIn"];
}): string[] {
  return [...new Set([...restart.namespaces, ...optIn.namespaces])];
}
