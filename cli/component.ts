import type { Probes } from "#lib/http/listen.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { CliContext } from "./context.ts";

/** What runs as a process. `all` is controller, webhook and proxy in one. */
export type Component = "controller" | "webhook" | "proxy" | "agent" | "dns" | "publisher" | "all";

export interface ServeFlags {
  readonly config?: string;
  readonly set?: readonly string[];
  /** Takes precedence over `log.format`. */
  readonly logFormat?: "json" | "text";
  /** Of a publisher. */
  readonly publisher?: string;
}

/** A component that runs until `stop` is called. */
export interface Running {
  /** Drains; resolves when everything has finished. */
  stop(): Promise<void>;
  /** Resolves on an unrecoverable failure: the component is then stopped, and the process exits with an error. */
  readonly broken?: Promise<Error>;
  readonly probes?: Probes;
}

/** What a component knows of its process: identity, addresses, log and the connection to the API server. */
export interface ProcessContext {
  readonly env: CliContext["env"];
  readonly identity: string;
  readonly clusterDomain: string | undefined;
  /** Text of this process's own /etc/resolv.conf; "" if there is none. */
  readonly resolvConf: string;
  readonly log: Logger;
  /** Whether it runs in a pod with a token, or KUBECONFIG is set. A user's default kubeconfig is not used. */
  readonly hasCluster: boolean;
  readonly connect: () => Promise<KubeClient>;
  /** The same process under the name of one of its parts, for logs and the API server's audit log. */
  readonly as: (part: Component) => ProcessContext;
}
