import type { KubeClient } from "#lib/kube/client.ts";

/** The sections of an installed configuration, not validated: the install may be of another version. */
export type Sections = Readonly<Record<string, unknown>>;

/** What an extra adds to an uninstall. */
export interface UninstallPart {
  /**
   * Its step, according to the sections of the configuration. Steps run after pods have been released, in the order of
   * the parts. Proxies and front Services still serve meanwhile. Throws if the extra's section is not valid.
   */
  readonly step?: (sections: Sections) => UninstallStep;
  /** ClusterIPs that pods hold and that end with the extra, each with the name of its Service. */
  readonly addresses?: (
    client: KubeClient,
    namespace: string,
    sections: Sections,
  ) => Promise<ReadonlyMap<string, string>>;
  /** Names of ConfigMaps in Switchback's namespace that its processes have created. */
  readonly configMaps?: (client: KubeClient, namespace: string) => Promise<readonly string[]>;
}

export interface UninstallStep {
  /** What the step does, as a sentence of the plan. */
  readonly plan: string;
  /**
   * Resolves to a text about what still holds addresses of Switchback when the timeout expires, or to undefined if
   * nothing does. Throws `still-held` if the uninstall cannot go on, even if it is forced.
   */
  readonly run: (options: StepOptions) => Promise<string | undefined>;
}

export interface StepOptions {
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
