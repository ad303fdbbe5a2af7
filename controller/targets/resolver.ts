import type { TargetConfig } from "../../config/schema.ts";
import type { Reason } from "../../hostmap/types.ts";
import type { RoutingHints, SourceState } from "../sources/types.ts";
import { targetOfClass } from "./ingress-class.ts";

/** Finds the target for routing hints. Answers may change with the cluster; `onChange` reports when to resolve again. */
export interface TargetResolver {
  /** Starts. `onSynced` is called once, when answers are valid: before that, "no target" has no meaning. */
  start(onChange: () => void, onSynced: () => void): void;
  /** The name of a target, or the reason why there is none. Equal hints have equal answers between two changes. */
  resolve(hints: RoutingHints): string | Reason;
  state(): SourceState[];
  stop(): Promise<void>;
}

/** Resolves to configured targets, by class only. */
export function classResolver(targets: readonly TargetConfig[]): TargetResolver {
  return {
    start: (_onChange, onSynced) => onSynced(),
    resolve: ({ className }) => targetOfClass(className, targets),
    state: () => [],
    stop: async () => {},
  };
}

/** Resolves objects only after a controller has admitted them: an Ingress that is not served may be a mistake, or an attack. */
export function admittedOnly(resolver: TargetResolver): TargetResolver {
  const waiting = {
    code: "not-admitted",
    text: "no controller has admitted its object: it has no load balancer status (policy.requireAdmitted)",
  };
  return {
    start: (onChange, onSynced) => resolver.start(onChange, onSynced),
    resolve: (hints) => (hints.admitted ? resolver.resolve(hints) : waiting),
    state: () => resolver.state(),
    stop: () => resolver.stop(),
  };
}

/** The definitions of configured and discovered targets. */
export interface TargetCatalog {
  /** Configured targets that are active. */
  configured(): readonly TargetConfig[];
  /** The current definition of a discovered target. */
  found(name: string): TargetConfig | undefined;
  /** `onChange` is called when a definition may have changed. */
  follow(onChange: () => void): void;
  /** The targets that have names. */
  use(names: ReadonlySet<string>): void;
}

/** Only configured targets. */
export function classCatalog(targets: readonly TargetConfig[]): TargetCatalog {
  return { configured: () => targets, found: () => undefined, follow: () => {}, use: () => {} };
}
