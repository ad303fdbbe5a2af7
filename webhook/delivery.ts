import type { Injection } from "#hostmap/inject.ts";
import type { Reason } from "#hostmap/types.ts";
import type { MetricsRegistry } from "#lib/telemetry/metrics.ts";
import type { AdmittedPod } from "./admitted-pod.ts";
import type { Operation } from "./json-patch.ts";

/** A way other than hostAliases by which an opted-in pod gets the names. Runs until it is stopped. */
export interface Delivery {
  /** Its value of the label `switchback.dev/via` and of `pods.via`. The webhook's paths end with it. */
  readonly name: string;
  /** Reason code of a pod that gets the names by it. */
  readonly code: string;
  /** The annotation by which a pod says that it has the names by it. A user may forge it. */
  readonly annotation: string;
  /** Reads what it needs of a pod, or returns a reason that names the invalid field. */
  read(admitted: unknown, pod: AdmittedPod, namespace: string): DeliveryToPod | Reason;
  /** A line for the webhook's readiness, which it never changes. Undefined if there is nothing to say. */
  readinessLine(): string | undefined;
  addMetrics(registry: MetricsRegistry): void;
  stop(): Promise<void>;
}

/** What a delivery does with one pod. */
export interface DeliveryToPod {
  /** How the pod gets the names, or the reason why it gets hostAliases instead. */
  give(): Delivered | Reason;
  /** Removes what an earlier pass gave the pod: it gets the names in another way. */
  takeBack(): readonly Operation[];
}

interface Delivered {
  readonly injection: Injection;
  /** Changes beside those of the injection. */
  readonly changes: readonly Operation[];
}

/** How pods get the names, apart from their own label. */
export interface DeliveryChoice {
  /** By the label of the pod's namespace; the path of the request carries it. */
  readonly namespace?: string | undefined;
  /** `pods.via` of the configuration. */
  readonly fallback: string;
  readonly deliveries: readonly Delivery[];
}
