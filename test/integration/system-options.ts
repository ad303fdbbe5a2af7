import type { ControlPlaneOptions } from "../cluster/controlplane.ts";
import type { Component } from "../cluster/processes.ts";
import type { Status } from "./objects.ts";

/** One running replica. */
export interface Replica {
  readonly process: Component;
  /** The address on which it listens. */
  readonly address: string;
  /** The ports on which it listens, as it logged them. */
  readonly port: number;
  readonly healthPort: number;
  /** The id of the replica's token in the API server's audit log. */
  readonly credential: string;
  /** Requests a page of its health server. */
  page(path: string, headers?: Readonly<Record<string, string>>): Promise<{ status: number; text: string }>;
  log(): Promise<string>;
  /** A controller's `/status`, read with its key. */
  status(): Promise<Status>;
}

export interface SystemOptions {
  readonly controllers?: number;
  readonly webhooks?: number;
  /** The chart's values, such as `{ config: { map: { vanishSeconds: 2 } } }`. */
  readonly values?: ChartValues;
  readonly controlPlane?: ControlPlaneOptions;
  /** Namespaces that exist before the chart is installed, as YAML. */
  readonly before?: string;
  /** Whether to log what our accounts, and people bound to the chart's Roles, ask the API server. */
  readonly audit?: boolean;
  /** Whether each component gets the chart's Node flags and, if this process may create cgroups, its memory limit. */
  readonly confined?: boolean;
}

export type ComponentName = "controller" | "webhook" | "proxy" | "agent" | "dns" | "all";
/** The chart's `profile`. */
export type Profile = "default" | "small";

export interface ChartValues {
  readonly profile?: Profile;
  readonly [section: string]: unknown;
}
