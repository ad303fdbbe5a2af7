import { statusOf } from "#lib/errors/errors.ts";

export interface Invocation {
  /** Name of the command. */
  readonly command: string;
  /** Namespace that Switchback is installed in. */
  readonly namespace: string;
}

/** The Roles that the chart installs for commands. It does not bind them to anybody. */
const ROLES: Readonly<Record<string, string>> = {
  status: "switchback-operator",
  dashboard: "switchback-operator",
  restart: "switchback-operator",
  inject: "switchback-map-reader",
};
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
    return "the Roles switchback-doctor have these rights; docs/doctor.md says how to bind them";
  const role = ROLES[command];
  if (role === undefined) return undefined;
  const user = USER.exec((error as Error).message)?.[1] ?? "USER";
  const bind = `kubectl -n ${namespace} create rolebinding ${role}-${command} --role ${role} --user '${user}'`;
  return `the Role ${role} in the namespace ${namespace} has the right; an admin can bind it: ${bind}`;
}
