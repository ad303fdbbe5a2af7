import type { MadeUpObjects } from "./objects.ts";
import { type MadeUpKind, nodeName, uidOf } from "./population.ts";

interface Lease {
  readonly metadata: { readonly labels?: Record<string, string>; readonly [field: string]: unknown };
  readonly spec: unknown;
}

/** Maximum delay between a real agent's write and its copies, in milliseconds. */
const SPREAD_MS = 1_000;
const MANAGED = '[{"manager":"switchback-agent","operation":"Apply","apiVersion":"coordination.k8s.io/v1"}]';

/**
 * The agents' Leases. Real agents write those of the first `real` nodes. If `nodes` is larger than `real`, each
 * further node copies the Lease of the real agent with its number modulo `real`, at a random time within a second.
 */
export class AgentLeases implements MadeUpKind {
  readonly apiVersion = "coordination.k8s.io/v1";
  readonly kind = "Lease";
  readonly columns = ["Name", "Holder", "Age"];
  readonly #namespace: string;
  readonly #nodes: number;
  readonly #real: number;
  readonly #leases = new Map<number, Lease>();
  readonly #numbers: ReadonlyMap<string, number>;
  /** Number of copied Lease writes. */
  copied = 0;

  constructor(namespace: string, nodes: number, real: number) {
    this.#namespace = namespace;
    this.#nodes = nodes;
    this.#real = real;
    this.#numbers = new Map(Array.from({ length: nodes }, (_, index) => [this.nameOf(index), index]));
  }

  /** The name that an agent gives its Lease. The names of these nodes are short enough to stay whole. */
  nameOf(index: number): string {
    return `switchback-agent-${nodeName(index)}`;
  }

  get count(): number {
    return this.#nodes;
  }

  range(namespace: string): readonly [number, number] | undefined {
    return namespace === this.#namespace ? [0, this.#nodes] : undefined;
  }

  numberOf(_namespace: string | undefined, name: string): number | undefined {
    return this.#numbers.get(name);
  }

  has(index: number): boolean {
    return this.#leases.has(index);
  }

  /** An unwritten Lease has no label, so that no selector of the agents' Leases selects it. */
  labels(index: number): Readonly<Record<string, string>> {
    return this.#leases.get(index)?.metadata.labels ?? {};
  }

  fields(index: number): Readonly<Record<string, string>> {
    return { "metadata.name": this.nameOf(index), "metadata.namespace": this.#namespace };
  }

  metadata(index: number, version: number): string {
    const own = { name: this.nameOf(index), namespace: this.#namespace, uid: uidOf("Lease", index) };
    const all = { ...this.#leases.get(index)?.metadata, ...own, resourceVersion: String(version) };
    return `${JSON.stringify(all).slice(0, -1)},"managedFields":${MANAGED}}`;
  }

  rest(index: number): string {
    return `,"spec":${JSON.stringify(this.#leases.get(index)?.spec ?? {})}`;
  }

  cells(index: number): string {
    return JSON.stringify([this.nameOf(index), "agent", "9d"]);
  }

  /** Handles an agent's write of its Lease. */
  apply(index: number, lease: Lease, objects: MadeUpObjects): void {
    this.#put(index, lease, objects);
    for (let other = index + this.#real; other < this.#nodes; other += this.#real) {
      const copy = () => {
        this.copied += 1;
        this.#put(other, lease, objects);
      };
      setTimeout(copy, Math.random() * SPREAD_MS);
    }
  }

  remove(index: number, objects: MadeUpObjects): void {
    objects.change(index, "DELETED");
    this.#leases.delete(index);
  }

  #put(index: number, lease: Lease, objects: MadeUpObjects): void {
    const type = this.#leases.has(index) ? "MODIFIED" : "ADDED";
    this.#leases.set(index, lease);
    objects.change(index, type);
  }
}
