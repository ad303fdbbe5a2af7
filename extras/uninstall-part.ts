import type { KubeClient } from "#lib/kube/client.ts";

/** The sections of an installed configuration, not validated: the install may be of another version. */
export type Sections = Readonly<Record<string, unknown>>;

/** Steps of an uninstall. */
export interface UninstallPart {
  /**
   * Takes out what the extra has written for readers other than pods, after pods have been released. Proxies and
   * front Services still serve meanwhile. Throws `still-held` if that is not possible.
   */
  readonly takeOut?: (options: TakeOutOptions) => Promise<void>;
  /**
   * The extra's last step, according to the sections of the configuration. It runs after `takeOut` of all extras.
   * Throws if the extra's section is not valid.
   */
  readonly lastStep?: (sections: Sections) => LastStep;
  /** ClusterIPs that pods hold and that end with the extra, each with the name of its Service. */
  readonly addresses?: (
    client: KubeClient,
    namespace: string,
    sections: Sections,
  ) => Promise<ReadonlyMap<string, string>>;
  /** Names of ConfigMaps in Switchback's namespace that its processes have created. */
  readonly configMaps?: (client: KubeClient, namespace: string) => Promise<readonly string[]>;
}

export interface LastStep {
  /** What the step does, as a sentence of the plan. */
  readonly plan: string;
  /**
   * Resolves to what still holds addresses of Switchback when the timeout expires, or to undefined if nothing does.
   */
  readonly run: (options: TakeOutOptions) => Promise<StillHolding | undefined>;
}

interface StillHolding {
  /** Subject of the uninstall's message, such as `agents`. */
  readonly who: string;
  /** What they hold; the uninstall adds what to do. */
  readonly text: string;
}

export interface TakeOutOptions {
  readonly client: KubeClient;
  /** Where Switchback is installed. */
  readonly namespace: string;
  readonly sections: Sections;
  /** Whether this process resolves names as the cluster's pods do. */
  readonly canAsk: boolean;
  readonly timeoutMs: number;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Prints a line for a person. */
  readonly say: (line: string) => void;
}
