import type { Config } from "#lib/config/schema.ts";
import type { Section } from "#lib/config/sections.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { type Fact, known } from "./fact.ts";
import type { Check, UpdaterInfo } from "./facts.ts";

/** What extras add to the diagnosis. */
export interface AddedChecks {
  /** Their sections of the configuration. */
  readonly sections: readonly Section[];
  readonly checks: readonly AddedCheck[];
}

/** A check, with the facts that it alone needs. */
export interface AddedCheck {
  /** Reads these facts with the caller's permissions. Resolves to the check, a pure function of them and the others. */
  readonly prepare: (source: FactSource) => Promise<Check>;
  /** Reads the state of the updaters, which update running pods without a restart. */
  readonly readUpdaters?: (source: FactSource) => Promise<Fact<readonly UpdaterInfo[]>>;
}

export interface FactSource {
  readonly client: KubeClient;
  /** Switchback's namespace. */
  readonly namespace: string;
  /** Undefined if it is unknown or missing. */
  readonly config: Config | undefined;
  /** Milliseconds since 1970. */
  readonly now: number;
}

export const NOTHING_ADDED: AddedChecks = { sections: [], checks: [] };

/** Reads the state of the updaters, which update running pods without a restart. */
export async function readUpdaters(
  checks: readonly AddedCheck[],
  source: FactSource,
): Promise<Fact<readonly UpdaterInfo[]>> {
  const read = checks.map(({ readUpdaters: ofExtra }) => ofExtra).find((ofExtra) => ofExtra !== undefined);
  return read === undefined ? known([]) : await read(source);
}
