import type { Injection } from "#hostmap/inject.ts";
import type { Reason } from "#hostmap/types.ts";
import type { MetricsRegistry } from "#lib/telemetry/metrics.ts";
import type { AdmittedPod } from "./admitted-pod.ts";
import type { Operation } from "./json-patch.ts";

/** A way other than hostAliases by which an opted-in pod gets the names. Runs until it is stopped. */
export interface Delivery {
  /**
   * Value of the label `switchback.dev/via` and of `pods.via` that selects this delivery. The webhook's paths end
   * with it.
   */
  readonly name: string;
  /** Reason code of a pod that gets the names by this delivery. */
  readonly code: string;
  /** The annotation of a pod that already has the names by this delivery. A user may forge it. */
  readonly annotation: string;
  /** Reads the fields that it needs from a pod, or returns a reason that names the invalid field. */
  read(admitted: unknown, pod: AdmittedPod, namespace: string): DeliveryToPod | Reason;
  /**
   * A line in the webhook's readiness text. It never changes the readiness. Undefined if there is nothing to report.
   */
  readinessLine(): string | undefined;
  addMetrics(registry: MetricsRegistry): void;
  stop(): Promise<void>;
}

/** What a delivery does with one pod. */
export interface DeliveryToPod {
  /** How the pod gets the names, or the reason why it gets hostAliases instead. */
  give(): Delivered | Reason;
  /** Removes what an earlier pass gave the pod, because the pod now gets the names in another way. */
  takeBack(): readonly Operation[];
}

interface Delivered {
  readonly injection: Injection;
  /** Changes in addition to those of the injection. */
  readonly changes: readonly Operation[];
}

/** How pods get the names if their own label does not decide. */
export interface DeliveryChoice {
  /** The delivery that the label of the pod's namespace selects. The path of the request contains it. */
  readonly namespace?: string | undefined;
  /** `pods.via` of the configuration. */
  readonly fallback: string;
  readonly deliveries: readonly Delivery[];
}
