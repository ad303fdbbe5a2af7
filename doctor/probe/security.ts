/** What the restricted Pod Security Standard asks of a pod. The user is the image's, which is not root; OpenShift assigns its own. */
export const podSecurity = { runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } } as const;

/** The same of a container, and a root file system that cannot be written. */
export const containerSecurity = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ["ALL"] },
} as const;
