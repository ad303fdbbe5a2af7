import assert from "node:assert/strict";

/** The fields of a Deployment or DaemonSet that are read here. */
interface Workload {
  readonly spec: { readonly template: { readonly spec: PodSpec } };
}

interface PodSpec {
  readonly containers: readonly Container[];
  readonly initContainers?: readonly Container[];
}

interface Container {
  readonly command?: readonly string[];
  readonly env?: ReadonlyArray<{ readonly name: string; readonly value?: string }>;
  readonly resources: { readonly limits: { readonly memory: string } };
}

/**
 * How the chart runs a component: the flags of `node`, the variables with a fixed value, and the memory limit in bytes.
 */
export function containerOf(workload: unknown): { flags: string[]; env: Record<string, string>; memoryLimit: number } {
  const { containers, initContainers = [] } = (workload as Workload).spec.template.spec;
  // A resolver's container is a native sidecar; the container beside it is CoreDNS.
  const container = [...initContainers, ...containers].find(({ command }) => command?.[0] === "node");
  assert.ok(container);
  const { command = [], env = [], resources } = container;
  const limit = /^(\d+)Mi$/.exec(resources.limits.memory);
  assert.ok(limit, `a limit in Mi: ${resources.limits.memory}`);
  const program = command.findIndex((argument, index) => index > 0 && !argument.startsWith("-"));
  const fixed = env.flatMap(({ name, value }) => (value === undefined ? [] : [[name, value] as const]));
  return {
    // Node strips types with WebAssembly, which jitless disables; the image has JavaScript instead.
    flags: command.slice(1, program).filter((flag) => flag !== "--jitless"),
    env: Object.fromEntries(fixed),
    memoryLimit: Number(limit[1]) * 1024 * 1024,
  };
}
