import { INJECT_KEY } from "#hostmap/metadata-keys.ts";
import { PROBE_PROGRAM } from "./program.ts";
import type { ProbePlan } from "./result.ts";
import { containerSecurity, podSecurity } from "./security.ts";

/** The API server ends the pod after this time, even if the CLI has exited. */
export const PROBE_SECONDS = 60;

/** The label identifies probe pods left behind, as after the CLI lost its connection. */
const PROBE_LABELS = { "app.kubernetes.io/name": "switchback-doctor", [INJECT_KEY]: "disabled" };

export interface ProbeImage {
  readonly image: string;
  readonly pullPolicy: string;
  /** It may have Node alone: the pod brings the program with it, as a user that is nobody's. */
  readonly plain?: boolean;
}

/** As the image of Switchback; images of Node name root, or a user without a number, which `runAsNonRoot` refuses. */
const PLAIN_USER = { runAsUser: 65532, runAsGroup: 65532 };

/**
 * The probe pod: restricted Pod Security, no token, no permissions, small. It is not injected and opts out of service meshes: it has
 * to see what other pods see.
 */
export function probePod(
  name: string,
  { image, pullPolicy, plain }: ProbeImage,
  plan: ProbePlan,
  user: object = PLAIN_USER,
): object {
  const text = JSON.stringify(plan);
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
      securityContext: plain ? { ...podSecurity, ...user } : podSecurity,
      containers: [
        {
          name: "probe",
          image,
          imagePullPolicy: pullPolicy,
          ...(plain ? { command: ["node", "-e", PROBE_PROGRAM, text] } : { args: ["probe", text] }),
          securityContext: containerSecurity,
          resources: { requests: { cpu: "50m", memory: "64Mi" }, limits: { cpu: "1", memory: "192Mi" } },
        },
      ],
    },
  };
}
