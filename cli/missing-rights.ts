import { statusOf } from "#lib/errors/errors.ts";

export interface Invocation {
  /** Name of the command. */
  readonly command: string;
  /** Namespace that Switchback is installed in. */
  readonly namespace: string;
}

/** The ClusterRole that the chart installs for people. It does not bind it to anybody. */
const READER = "switchback-reader";
/** Commands for which its rights in Switchback's namespace are enough. */
const IN_NAMESPACE: readonly string[] = ["status", "dashboard", "restart", "inject"];
/** The user in an error text of the API server. */
const USER = /\bUser "([^"]+)" cannot\b/;

/** What a caller without credentials or rights can do about an error status. Undefined for other errors. */
export function cureOfRefusal(error: unknown, { command, namespace }: Invocation): string | undefined {
  const status = statusOf(error);
  if (status === 401) return "log in to the cluster again, or renew the token or certificate that the kubeconfig has";
  if (status !== 403) return undefined;
  if (/\bcannot impersonate\b/.test((error as Error).message))
    return "--as needs permission to impersonate users: omit it, or ask an admin for the permission";
  if (command === "uninstall") return "uninstalling needs the permissions of a cluster admin, like installing";
  if (command === "doctor" || command === "dump")
    return `the ClusterRole ${READER} has these rights; docs/doctor.md says how to bind it`;
  if (!IN_NAMESPACE.includes(command)) return undefined;
  const user = USER.exec((error as Error).message)?.[1] ?? "USER";
  const bind = `kubectl -n ${namespace} create rolebinding ${READER} --clusterrole ${READER} --user '${user}'`;
  return `the ClusterRole ${READER} has the right; an admin can bind it in the namespace ${namespace}: ${bind}`;
}
