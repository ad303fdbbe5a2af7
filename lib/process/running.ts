import type { Config } from "#lib/config/schema.ts";
import type { Probes } from "#lib/http/listen.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { CliContext } from "./context.ts";

/** A component that runs until `stop` is called. */
export interface Running {
  /** Drains; resolves when everything has finished. */
  stop(): Promise<void>;
  /** Resolves on an unrecoverable failure. The component is then stopped, and the process exits with an error. */
  readonly broken?: Promise<Error>;
  readonly probes?: Probes;
}

/** What a component knows about its process: identity, addresses, log and the connection to the API server. */
export interface ProcessContext {
  readonly env: CliContext["env"];
  readonly identity: string;
  readonly clusterDomain: string | undefined;
  /** Text of this process's own /etc/resolv.conf; "" if it is missing. */
  readonly resolvConf: string;
  readonly log: Logger;
  /**
   * Whether the process runs in a pod with a token, or KUBECONFIG is set. It does not use a user's default
   * kubeconfig.
   */
  readonly hasCluster: boolean;
  readonly connect: () => Promise<KubeClient>;
  /** The command of this process, with Node's flags and its arguments. */
  readonly command: () => readonly [string, ...string[]];
  /** The same process under the name of one of its parts. Logs and the API server's audit log show this name. */
  readonly as: (part: string) => ProcessContext;
}

/** Starts a component with its configuration, and resolves once it runs. */
export type Starter = (config: Config, context: ProcessContext) => Promise<Running>;

/**
 * Starts a component with its own connection. Closes the connection when the component has stopped, or has failed to
 * start.
 */
export async function withOwnClient(
  connect: () => Promise<KubeClient>,
  start: (client: KubeClient) => Promise<Running>,
): Promise<Running> {
  const client = await connect();
  try {
    const running = await start(client);
    return {
      ...running,
      async stop() {
        await running.stop();
        client.close();
      },
    };
  } catch (error) {
    client.close();
    throw error;
  }
}
