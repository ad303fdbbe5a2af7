import type { TargetConfig } from "../../config/schema.ts";
import type { Reason } from "../../hostmap/types.ts";
import type { RoutingHints, SourceState } from "../sources/types.ts";
import { targetOfClass } from "./ingress-class.ts";

/** Finds the target behind a hints. What it answers may change with the cluster; `onChange` tells when to ask again. */
export interface TargetResolver {
  /** Begins; `onSynced` is called once, when it can answer: until then "no target" would mean nothing. */
  start(onChange: () => void, onSynced: () => void): void;
  /** The name of a target, or why there is none. Equal hints get equal answers between two changes. */
  resolve(hints: RoutingHints): string | Reason;
  state(): SourceState[];
  stop(): Promise<void>;
}

/** Targets as configured, told apart by class alone. */
export function classResolver(targets: readonly TargetConfig[]): TargetResolver {
  return {
    start: (_onChange, onSynced) => onSynced(),
    resolve: ({ className }) => targetOfClass(className, targets),
    state: () => [],
    stop: async () => {},
  };
}

/** Lets objects wait until a controller has taken them on: an Ingress that nobody serves may be a slip, or bait. */
export function admittedOnly(resolver: TargetResolver): TargetResolver {
  const waiting = {
    code: "not-admitted",
    text: "no controller has taken its object on: it has no load balancer status (policy.requireAdmitted)",
  };
  return {
    start: (onChange, onSynced) => resolver.start(onChange, onSynced),
    resolve: (hints) => (hints.admitted ? resolver.resolve(hints) : waiting),
    state: () => resolver.state(),
    stop: () => resolver.stop(),
  };
}

/** The definitions of targets: of the config, and found. */
export interface TargetCatalog {
  /** Configured targets that are in force. */
  configured(): readonly TargetConfig[];
  /** A found target, as it is now. */
  found(name: string): TargetConfig | undefined;
  /** `onChange` is called when a definition may have changed. */
  follow(onChange: () => void): void;
  /** The targets that names lead to. */
  use(names: ReadonlySet<string>): void;
}

/** Targets as configured, and no others. */
export function classCatalog(targets: readonly TargetConfig[]): TargetCatalog {
  return { configured: () => targets, found: () => undefined, follow: () => {}, use: () => {} };
}
