import { INJECT_KEY } from "../../hostmap/metadata-keys.ts";
import type { ProbePlan } from "./result.ts";
import { containerSecurity, podSecurity } from "./security.ts";

/** The API server ends the pod after this time, even if the CLI has exited. */
export const PROBE_SECONDS = 60;

/** The label identifies probe pods left behind, as after the CLI lost its connection. */
const PROBE_LABELS = { "app.kubernetes.io/name": "switchback-doctor", [INJECT_KEY]: "disabled" };

export interface ProbeImage {
  readonly image: string;
  readonly pullPolicy: string;
}

/**
 * The probe pod: restricted Pod Security, no token, no permissions, small. It is not injected and opts out of service meshes: it has
 * to see what other pods see.
 */
export function probePod(name: string, { image, pullPolicy }: ProbeImage, plan: ProbePlan): object {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name,
      labels: { ...PROBE_LABELS, "sidecar.istio.io/inject": "false" },
      annotations: { "linkerd.io/inject": "disabled", "sidecar.istio.io/inject": "false" },
    },
    spec: {
      restartPolicy: "Never",
      activeDeadlineSeconds: PROBE_SECONDS,
      terminationGracePeriodSeconds: 1,
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      securityContext: podSecurity,
      containers: [
        {
          name: "probe",
          image,
          imagePullPolicy: pullPolicy,
          args: ["probe", JSON.stringify(plan)],
          securityContext: containerSecurity,
          resources: { requests: { cpu: "50m", memory: "64Mi" }, limits: { cpu: "1", memory: "192Mi" } },
        },
      ],
    },
  };
}
