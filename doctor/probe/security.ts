/**
 * Meets the restricted Pod Security Standard. The image sets the user, which is not root. OpenShift
 * assigns another.
 */
export const podSecurity = { runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } } as const;

/** The same for a container, plus a read-only root filesystem. */
export const containerSecurity = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ["ALL"] },
} as const;
