import { parse } from "yaml";
import { readConfigText } from "#lib/documents/installed-config.ts";
import { ifFound, SwitchbackError } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { type ConnectFlags, connect, connectOptionsFrom } from "#lib/kube/connect.ts";
import { resourcePath } from "#lib/kube/paths.ts";
import type { ObjectMeta } from "#lib/kube/types.ts";
import type { CliContext } from "#lib/process/context.ts";
import { workloadKey } from "#lib/workloads/workload-keys.ts";
import { workloadPath } from "#lib/workloads/workload-kinds.ts";
import { type Format, type Report, render } from "./formats.ts";
import { tableWithNotes } from "./table.ts";

interface VersionFlags extends ConnectFlags {
  readonly namespace: string;
  readonly client?: boolean;
  readonly output: Format;
}

interface ComponentVersion {
  readonly component: string;
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  /** The tag of the component's image. If the image has only a digest, the version in the component's label. */
  readonly version: string;
  readonly image: string;
  readonly ready: number;
  readonly desired: number;
}

interface RawWorkload {
  readonly metadata: ObjectMeta;
  readonly spec?: {
    readonly replicas?: number;
    readonly template?: { readonly spec?: { readonly containers?: ReadonlyArray<{ readonly image?: string }> } };
  };
  readonly status?: {
    readonly readyReplicas?: number;
    readonly numberReady?: number;
    readonly desiredNumberScheduled?: number;
  };
}

const COMPONENT_KEY = "app.kubernetes.io/component";
const VERSION_KEY = "app.kubernetes.io/version";
const LABELS = "app.kubernetes.io/name=switchback";

/**
 * Prints the version of this program, `client`. Without `--client`, also prints the versions of the components in the
 * cluster. This program's version is printed first, even if the cluster cannot be read.
 */
export async function version(
  client: string,
  flags: VersionFlags,
  { env, stdout, progress }: CliContext,
): Promise<void> {
  const reportOf = (components?: readonly ComponentVersion[]): Report => ({
    document: { client, ...(components === undefined ? {} : { components }) },
    names: (components ?? []).map(workloadKey),
    text: (wide) => ({ text: components === undefined ? "" : tableOf(components, wide) }),
  });
  const print = async (components?: readonly ComponentVersion[]) =>
    stdout.write((await render(flags.output, reportOf(components))).text);
  if (flags.output === "text" || flags.output === "wide") stdout.write(`switchback ${client}\n`);
  if (flags.client) return await print();
  let components: readonly ComponentVersion[];
  try {
    components = await progress.during("reading the cluster", () => read(flags, env));
  } catch (error) {
    await print();
    throw error;
  }
  await print(components);
}

function tableOf(components: readonly ComponentVersion[], wide: boolean): string {
  const rows = components.map(({ component, version: is, ready, desired, image }) => ({
    cells: [component, is, `${ready}/${desired}`, ...(wide ? [image] : [])],
  }));
  return `\n${tableWithNotes(["COMPONENT", "VERSION", "READY", ...(wide ? ["IMAGE"] : [])], rows).text}`;
}

async function read(flags: VersionFlags, env: CliContext["env"]): Promise<ComponentVersion[]> {
  const client = await connect(connectOptionsFrom(env, flags));
  try {
    const { namespace } = flags;
    const path = resourcePath({ group: "apps", version: "v1", namespace, resource: "deployments" });
    const { items } = await client.list<RawWorkload>(path, { labelSelector: LABELS });
    if (items.length === 0) {
      const message = `no Deployment of Switchback in namespace ${namespace}; is it installed there? (--namespace)`;
      throw new SwitchbackError("input-invalid", message);
    }
    const components = items.map((raw) => componentOf("Deployment", raw));
    return [...components, ...(await readElsewhere(client, namespace))];
  } finally {
    client.close();
  }
}

/** The components outside the namespace of Switchback: the agents, if they exist. */
async function readElsewhere(client: KubeClient, installed: string): Promise<ComponentVersion[]> {
  const text = (await ifFound(readConfigText(client, installed))) ?? "";
  const { agentWorkload } = await import("#extras/agent/installed.ts");
  const { kind, namespace, name } = agentWorkload(parse(text) ?? {});
  const agents = await ifFound(client.get<RawWorkload>(workloadPath(namespace, kind, name)));
  return agents === undefined ? [] : [componentOf(kind, agents)];
}

function componentOf(kind: string, { metadata, spec, status }: RawWorkload): ComponentVersion {
  const image = spec?.template?.spec?.containers?.[0]?.image ?? "";
  const { namespace = "", name = "" } = metadata;
  return {
    component: metadata.labels?.[COMPONENT_KEY] ?? name,
    kind,
    namespace,
    name,
    version: tagOf(image) ?? metadata.labels?.[VERSION_KEY] ?? "unknown",
    image,
    ready: status?.readyReplicas ?? status?.numberReady ?? 0,
    desired: spec?.replicas ?? status?.desiredNumberScheduled ?? 1,
  };
}

/** `registry:5000/switchback:0.1.0@sha256:...` -> `0.1.0` */
function tagOf(image: string): string | undefined {
  return /^[^@]*:([^/:@]+)(?:@|$)/.exec(image)?.[1];
}
