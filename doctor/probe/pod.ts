import { INJECT_KEY } from "#hostmap/metadata-keys.ts";
import { PROBE_PROGRAM } from "./program.ts";
import type { ProbePlan } from "./result.ts";

/** The API server ends the pod after this time, even if the CLI has exited. */
export const PROBE_SECONDS = 60;

/** This label finds probe pods that were left behind, for example after a lost connection. */
const PROBE_LABELS = { "app.kubernetes.io/name": "switchback-doctor", [INJECT_KEY]: "disabled" };

/** Meets the restricted Pod Security Standard. */
export const podSecurity = { runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } } as const;

/** The same for a container, plus a read-only root filesystem. */
export const containerSecurity = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ["ALL"] },
} as const;

/** An image that has Node as `node`. */
export interface ProbeImage {
  readonly image: string;
  readonly pullPolicy: string;
}

/** The user of Switchback's image. Node images use root or a user without a number; `runAsNonRoot` refuses both. */
const PLAIN_USER = { runAsUser: 65532, runAsGroup: 65532 };

/**
 * The probe pod: small, restricted Pod Security, no token, no permissions. It is not injected and
 * opts out of service meshes, so that it sees what other pods see.
 */
export function probePod(
  name: string,
  { image, pullPolicy }: ProbeImage,
  plan: ProbePlan,
  user: object = PLAIN_USER,
): object {
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
      securityContext: { ...podSecurity, ...user },
      containers: [
        {
          name: "probe",
          image,
          imagePullPolicy: pullPolicy,
          command: ["node", "-e", PROBE_PROGRAM, JSON.stringify(plan)],
          securityContext: containerSecurity,
          resources: { requests: { cpu: "50m", memory: "64Mi" }, limits: { cpu: "1", memory: "192Mi" } },
        },
      ],
    },
  };
}
